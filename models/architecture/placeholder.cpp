// placeholder until the box is filled
