"""The papers, one frozen dataclass each."""
