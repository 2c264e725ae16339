package comm

// gather plans joining all members' arrays on the member of a slot.
func (p *Plan) gather(slot int) {
	dim := p.calls[slot].Dim
	counts := make([]int, len(p.calls))
	total := 0
	for i, c := range p.calls {
		counts[i] = c.inType().shape[dim]
		total += counts[i]
	}
	out := p.result(slot, p.calls[slot].inType().with(dim, total))
	p.Results[slot].Counts = counts
	off := 0
	for i, c := range p.calls {
		p.move(place{slot, out, dim, off}, place{i, c.In, dim, 0}, c.inType())
		off += counts[i]
	}
}

// exchange plans joining on one member the parts that all members cut for it.
func (p *Plan) exchange(slot int) {
	split, concat := p.calls[slot].Dim, p.calls[slot].Concat
	boxes := make([]typ, len(p.calls))
	counts := make([]int, len(p.calls))
	total := 0
	for i, c := range p.calls {
		boxes[i] = c.inType().with(split, c.Sizes[slot])
		counts[i] = boxes[i].shape[concat]
		total += counts[i]
	}
	out := p.result(slot, boxes[slot].with(concat, total))
	p.Results[slot].Counts = counts
	off := 0
	for i, c := range p.calls {
		p.move(place{slot, out, concat, off}, place{i, c.In, split, sum(c.Sizes[:slot])}, boxes[i])
		off += counts[i]
	}
}

func (p *Plan) broadcast() {
	root := p.calls[0].Root
	x, t := p.calls[root].In, p.calls[root].inType()
	for slot, c := range p.calls {
		if slot == root && !c.dstType().isValid() {
			if p.m.isLocal(root) {
				p.Results[slot].Array = x
			}
			continue
		}
		out := p.result(slot, t)
		inPlace := slot == root && len(out.Bytes()) > 0 && &out.Bytes()[0] == &x.Bytes()[0]
		if !inPlace {
			p.whole(slot, out, root, t)
		}
	}
}

func (p *Plan) scatter() {
	from := p.calls[0].Root
	root := p.calls[from]
	off := 0
	for slot, size := range root.Sizes {
		box := root.inType().with(root.Dim, size)
		out := p.result(slot, box)
		p.move(place{slot, out, root.Dim, 0}, place{from, root.In, root.Dim, off}, box)
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
			clear(p.result(slot, c.inType()).Bytes())
			continue
		}
		t := p.calls[source[slot]].inType()
		p.whole(slot, p.result(slot, t), source[slot], t)
	}
}

// message plans the copy from slot 0 to slot 1; their types have been compared.
func (p *Plan) message() {
	t := p.calls[0].inType()
	p.whole(1, p.result(1, t), 0, t)
}

func sum(xs []int) int {
	n := 0
	for _, x := range xs {
		n += x
	}
	return n
}
