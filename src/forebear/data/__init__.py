"""Text, parallel text and labeled files become ids and examples."""
