package op

func layerOps() []Op {
	return []Op{}
}
