"""How right answers are: the field's figures, and how sure a model may be."""
