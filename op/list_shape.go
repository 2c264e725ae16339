package op

func shapeOps() []Op {
	return []Op{}
}
