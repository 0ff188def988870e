"""Plans and runs: pre-training, adaptation, distillation, quantization; explaining and previewing them."""
