"""`python -m forebear`: the command line, for programs that start Python themselves, such as torchrun."""

from forebear.cli.main import run

if __name__ == "__main__":
    run()
