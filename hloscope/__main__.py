"""`python -m hloscope` is the command `hloscope`."""

from hloscope.cli import main

if __name__ == "__main__":
    main()
