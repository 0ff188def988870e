"""A run answers: score, next, fill, generate, embed, translate, classify, measure."""
