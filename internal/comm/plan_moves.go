package comm

// gather joins all members' arrays on one.
func (p *Plan) gather(slot int) {
	dim := p.calls[slot].Dim
	counts := make([]int, len(p.calls))
	total := 0
	for i, c := range p.calls {
		counts[i] = c.In.Shape()[dim]
		total += counts[i]
	}
	out := p.result(slot, typeOf(p.calls[slot].In).with(dim, total))
	p.Results[slot].Counts = counts
	if p.err != nil {
		return
	}
	off := 0
	for i, c := range p.calls {
		p.move(out, dim, off, c.In, dim, 0, typeOf(c.In))
		off += counts[i]
	}
}

// exchange joins on one member the parts that all cut for it.
func (p *Plan) exchange(slot int) {
	split, concat := p.calls[slot].Dim, p.calls[slot].Concat
	boxes := make([]typ, len(p.calls))
	counts := make([]int, len(p.calls))
	total := 0
	for i, c := range p.calls {
		boxes[i] = typeOf(c.In).with(split, c.Sizes[slot])
		counts[i] = boxes[i].shape[concat]
		total += counts[i]
	}
	out := p.result(slot, boxes[slot].with(concat, total))
	p.Results[slot].Counts = counts
	if p.err != nil {
		return
	}
	off := 0
	for i, c := range p.calls {
		p.move(out, concat, off, c.In, split, sum(c.Sizes[:slot]), boxes[i])
		off += counts[i]
	}
}

func (p *Plan) broadcast() {
	root := p.calls[0].Root
	x := p.calls[root].In
	for slot, c := range p.calls {
		if slot == root && !c.Dst.IsValid() {
			p.Results[slot].Array = x
			continue
		}
		out := p.result(slot, typeOf(x))
		inPlace := slot == root && x.Len() > 0 && &out.Bytes()[0] == &x.Bytes()[0]
		if p.err == nil && !inPlace {
			p.whole(out, x)
		}
	}
}

func (p *Plan) scatter() {
	root := p.calls[p.calls[0].Root]
	off := 0
	for slot, size := range root.Sizes {
		box := typeOf(root.In).with(root.Dim, size)
		out := p.result(slot, box)
		if p.err == nil {
			p.move(out, root.Dim, 0, root.In, root.Dim, off, box)
		}
		off += size
	}
}

func (p *Plan) permute() {
	source := make([]int, len(p.calls))
	for i := range source {
		source[i] = -1
	}
	for _, pair := range p.calls[0].Pairs {
		source[pair.Target] = pair.Source
	}
	for slot, c := range p.calls {
		if source[slot] < 0 {
			clear(p.result(slot, typeOf(c.In)).Bytes())
			continue
		}
		x := p.calls[source[slot]].In
		if out := p.result(slot, typeOf(x)); p.err == nil {
			p.whole(out, x)
		}
	}
}

// message carries one array from slot 0 to slot 1; their types have been compared.
func (p *Plan) message() {
	p.whole(p.result(1, typeOf(p.calls[0].In)), p.calls[0].In)
}

func sum(xs []int) int {
	n := 0
	for _, x := range xs {
		n += x
	}
	return n
}
