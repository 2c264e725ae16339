package op

func attentionOps() []Op {
	return []Op{}
}
