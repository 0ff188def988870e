"""Import and export: Hugging Face, ELMo, ARPA, word-vector files, ONNX."""
