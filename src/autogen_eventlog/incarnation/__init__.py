"""One instance of an agent at work: what it receives and does, recorded while live, followed in replay."""
