package optim

import "github.com/galley-ml/galley/op"

// SlotTypes returns the types of the optimizer state of the named parameter, one per slot. Optimizers with
// slots of another type than the parameter's implement a method of that name.
func SlotTypes(o Optimizer, name string, p op.Type) []op.Type {
	o = For(o, name)
	if t, ok := o.(interface{ SlotTypes(p op.Type) []op.Type }); ok {
		return t.SlotTypes(p)
	}
	return repeated(p, o.Slots())
}

func repeated(p op.Type, n int) []op.Type {
	list := make([]op.Type, n)
	for i := range list {
		list[i] = p
	}
	return list
}

// filled pads a list of slot types to n; the unused slots have one element.
func filled(list []op.Type, p op.Type, n int) []op.Type {
	for len(list) < n {
		list = append(list, op.Type{DType: p.DType, Shape: []int{1}})
	}
	return list
}

// SlotTypes returns the slot types of the optimizer, and the type of the average.
func (a Averaged) SlotTypes(p op.Type) []op.Type { return append(SlotTypes(a.Optimizer, "", p), p) }

// SlotTypes returns the slot types of the member's optimizer, padded with unused slots of one element.
func (m member) SlotTypes(p op.Type) []op.Type {
	return filled(SlotTypes(m.Optimizer, "", p), p, m.slots)
}
