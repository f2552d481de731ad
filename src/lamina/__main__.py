"""`python -m lamina`: the command line."""

from lamina.cli import main

if __name__ == "__main__":
    main()
