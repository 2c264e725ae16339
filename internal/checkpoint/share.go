package checkpoint

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/galley-ml/galley/array"
)

// Places describes where the devices of a state are.
type Places struct {
	// Process is the process of a device, Host the host of each process.
	Process func(device int) int
	Host    []string
	// Me is this process.
	Me int
}

// Kinds of boxes of a host's share: those that another host holds, too, and those that none does.
const (
	sharedBoxes = iota
	soleBoxes
	boxKinds
)

// share is what one process stores of a state, so that its host has every box of its devices once: pieces by
// kind. The processes of a host divide them evenly.
type share [boxKinds][]piece

// newShare divides the boxes of a host among its processes. It is deterministic.
func newShare(s State, at Places) (share, error) {
	p := &plan{tensors: s.Tensors}
	for i, t := range s.Tensors {
		if err := p.addTensor(i, t); err != nil {
			return share{}, fmt.Errorf("tensor %q: %w", t.Name, err)
		}
	}
	var mine share
	load := map[int]int64{}
	for _, i := range p.largestFirst() {
		pc := p.pieces[i]
		own, sole := at.holders(s.Tensors[pc.tensor].Parts, pc.holders)
		if len(own) == 0 {
			continue
		}
		pc.part = slices.MinFunc(own, func(a, b int) int {
			x, y := at.process(s, pc.tensor, a), at.process(s, pc.tensor, b)
			return cmp.Or(cmp.Compare(load[x], load[y]), cmp.Compare(x, y), cmp.Compare(a, b))
		})
		process := at.process(s, pc.tensor, pc.part)
		load[process] += p.size(i)
		if process == at.Me {
			kind := sharedBoxes
			if sole {
				kind = soleBoxes
			}
			mine[kind] = append(mine[kind], pc)
		}
	}
	return mine, nil
}

// largestFirst returns the pieces in the order in which they are assigned.
func (p *plan) largestFirst() []int {
	order := make([]int, len(p.pieces))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return -cmp.Compare(p.size(a), p.size(b)) })
	return order
}

// process returns the process of a part of a tensor.
func (at Places) process(s State, tensor, part int) int {
	return at.Process(s.Tensors[tensor].Parts[part].Device)
}

// holders returns those of a box's holders that are on this host; sole if all are.
func (at Places) holders(parts []Part, holders []int) (own []int, sole bool) {
	sole = true
	for _, h := range holders {
		if at.Host[at.Process(parts[h].Device)] == at.Host[at.Me] {
			own = append(own, h)
		} else {
			sole = false
		}
	}
	return own, sole
}

// pieceBytes returns the size of a list of pieces.
func pieceBytes(s State, list []piece) (n int64) {
	for _, pc := range list {
		n += int64(pc.box.Len()) * int64(s.Tensors[pc.tensor].Type.DType.Size())
	}
	return n
}

// read copies a piece to the end of a file.
func (pc piece) read(s State, into *summed) error {
	t := s.Tensors[pc.tensor]
	part := t.Parts[pc.part]
	if part.Data.IsValid() {
		into.copy(part.Data.Bytes())
		return nil
	}
	if part.Read == nil {
		return fmt.Errorf("tensor %q%v of device %d: it is another process's", t.Name, pc.box, part.Device)
	}
	end := into.at + int64(pc.box.Len())*int64(t.Type.DType.Size())
	if err := part.Read(array.View(t.Type.DType, array.Shape(pc.box.Size).Clone(),
		into.bytes[into.at:end])); err != nil {
		return err
	}
	into.to(end)
	return nil
}
