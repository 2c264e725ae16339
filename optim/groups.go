package optim

import (
	"fmt"
	"path"

	"github.com/galley-ml/galley/op"
)

// Groups gives groups of parameters their own optimizer settings, like PyTorch's parameter groups.
//
//	optim.Groups{
//		Default: optim.AdamW{WeightDecay: 0.1},
//		Groups: []optim.Group{
//			{Params: []string{"*.bias", "*norm*"}, Optimizer: optim.AdamW{}}, // no decay
//			{Params: []string{"embed*"}, LR: 0.1},
//		},
//	}
type Groups struct {
	// Default updates the parameters that no group matches.
	Default Optimizer
	// Groups are tried in order; the first that matches a parameter is used.
	Groups []Group
}

// Group selects parameters by name and overrides their settings.
type Group struct {
	// Params are name patterns: * matches any text, ? one character, [ab] one of several.
	Params []string
	// Optimizer updates the group; nil means the default.
	Optimizer Optimizer
	// LR multiplies the learning rate; 0 means 1. To train nothing, use nn.Freeze.
	LR float64
}

// Slots returns the maximum over the optimizers.
func (g Groups) Slots() int {
	n := g.Default.Slots()
	for _, group := range g.Groups {
		if group.Optimizer != nil {
			n = max(n, group.Optimizer.Slots())
		}
	}
	return n
}

// Update updates a parameter without a name, with the default optimizer.
func (g Groups) Update(p, grad *op.Tensor, slots []*op.Tensor, s Step) (*op.Tensor, []*op.Tensor) {
	return g.forGroup(Group{}).Update(p, grad, slots, s)
}

// Named returns the optimizer of the named parameter.
func (g Groups) Named(name string) Optimizer {
	for _, group := range g.Groups {
		if group.names(name) {
			return g.forGroup(group)
		}
	}
	return g.forGroup(Group{})
}

func (g Groups) forGroup(group Group) Optimizer {
	o := member{Optimizer: group.Optimizer, rate: orElse(group.LR, 1), slots: g.Slots()}
	if o.Optimizer == nil {
		o.Optimizer = g.Default
	}
	return o
}

func (g Group) names(name string) bool {
	for _, pattern := range g.Params {
		if ok, _ := path.Match(pattern, name); ok {
			return true
		}
	}
	return false
}

// Check returns an error for a pattern that is malformed or matches no parameter.
func (g Groups) Check(names []string) error {
	if g.Default == nil {
		return fmt.Errorf("optimizer groups: no default: want one for the parameters that no group names")
	}
	for i, group := range g.Groups {
		if group.LR < 0 {
			return fmt.Errorf("optimizer groups: group %d: rate: got %v, want at least 0", i, group.LR)
		}
		for _, pattern := range group.Params {
			if _, err := path.Match(pattern, ""); err != nil {
				return fmt.Errorf("optimizer groups: group %d: pattern %q: %w", i, pattern, err)
			}
			if !(Group{Params: []string{pattern}}).namesAny(names) {
				return fmt.Errorf("optimizer groups: group %d: pattern %q names no parameter: got %s", i, pattern,
					firstNames(names))
			}
		}
	}
	return nil
}

func (g Group) namesAny(names []string) bool {
	for _, n := range names {
		if g.names(n) {
			return true
		}
	}
	return false
}

// firstNames returns the first few names of a list, as text.
func firstNames(names []string) string {
	if len(names) > 4 {
		return fmt.Sprintf("%q and %d more", names[:4], len(names)-4)
	}
	return fmt.Sprintf("%q", names)
}

// member is the optimizer of a group: with a learning rate factor, and as many slots as the other groups.
type member struct {
	Optimizer
	rate  float64
	slots int
}

func (m member) Slots() int { return m.slots }

func (m member) Update(p, grad *op.Tensor, slots []*op.Tensor, s Step) (*op.Tensor, []*op.Tensor) {
	if m.rate != 1 {
		s.LR = op.MulScalar(s.LR, m.rate)
	}
	n := m.Optimizer.Slots()
	next, kept := m.Optimizer.Update(p, grad, slots[:n], s)
	return next, append(kept, slots[n:]...)
}

// For returns the optimizer of the named parameter: o itself, unless it has groups.
func For(o Optimizer, name string) Optimizer {
	if g, ok := o.(interface{ Named(name string) Optimizer }); ok {
		return g.Named(name)
	}
	return o
}

// Check returns an error if an optimizer does not fit a model with these parameters.
func Check(o Optimizer, names []string) error {
	if g, ok := o.(interface{ Check(names []string) error }); ok {
		return g.Check(names)
	}
	return nil
}
