package op

func elementOps() []Op {
	return []Op{}
}
