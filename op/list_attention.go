package op

func attentionOps() []Op {
	return []Op{
		attention{},
		attentionGrad{},
		rope{},
	}
}
