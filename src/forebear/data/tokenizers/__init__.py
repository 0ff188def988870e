"""Tokenizers: word, character, WordPiece and BPE; trained here or loaded from other libraries' files."""
