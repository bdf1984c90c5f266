"""`attnjit.flex_attention`: functions of FlexAttention as expressions."""
