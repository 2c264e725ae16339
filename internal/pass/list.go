package pass

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/strict"
)

// Place is the stage of compilation at which a pass runs.
type Place string

// The places, in order.
const (
	// OnLoss is the program of the loss, before differentiation.
	OnLoss Place = "loss"
	// OnProgram is a whole program, before it is split over devices.
	OnProgram Place = "program"
	// OnDevice is the program of one device.
	OnDevice Place = "device"
)

// Named is a pass that a strategy can name.
type Named struct {
	Pass
	// About is a one-line description.
	About string
	Place Place
	// For names the devices that run it by default; empty means all.
	For string
}

// The names that executors refer to.
const (
	JoinName  = "join"
	LoopsName = "loops"
)

// builtin returns Galley's own passes, in the order in which they run.
func builtin() []Named {
	return []Named{
		{Pass{JoinName, joinAndFold}, "products that share a side become one", OnLoss, "accelerators"},
		{Pass{"fold", Fold}, "what is known is computed, and what changes nothing is left out", OnProgram, ""},
		{Pass{"merge", Merge}, "equal ops of equal operands are one", OnProgram, ""},
		{Pass{"prune", Prune}, "what nobody needs goes", OnProgram, ""},
		{Pass{"gemm_epilogue", Fuse}, "a product takes over the bias behind it", OnDevice, "one host device"},
		{Pass{LoopsName, Loops}, "ops over the same elements become one loop", OnDevice, "the host"},
	}
}

func joinAndFold(f *ir.Func) (*ir.Func, error) {
	f, err := Join(f)
	if err != nil {
		return nil, err
	}
	return Fold(f)
}

// Loops runs Groups on a program and the bodies in it.
func Loops(f *ir.Func) (*ir.Func, error) {
	return Everywhere(f, func(f *ir.Func) (*ir.Func, error) {
		g, _, err := Groups(f, GroupConfig{})
		return g, err
	})
}

// foreign holds the passes of other modules, each with the pass that it runs after.
var foreign struct {
	sync.RWMutex
	list  []Named
	after []string
}

// Register adds a pass of another module to the list, right after the pass called after and at the same
// place.
func Register(p Named, after string) error {
	all := All()
	at := slices.IndexFunc(all, func(o Named) bool { return o.Name == after })
	switch {
	case p.Name == "" || p.Name == "none" || strings.ContainsAny(p.Name, "-+, \t\n"):
		return fmt.Errorf("pass %q: want a name of letters, digits and underscores", p.Name)
	case slices.ContainsFunc(all, func(o Named) bool { return o.Name == p.Name }):
		return fmt.Errorf("pass %s: there is a pass of that name", p.Name)
	case p.Run == nil:
		return fmt.Errorf("pass %s: it has no function", p.Name)
	case at < 0:
		return fmt.Errorf("pass %s: after %w", p.Name, unknown(after, all))
	}
	p.Place, p.For = all[at].Place, ""
	foreign.Lock()
	defer foreign.Unlock()
	foreign.list, foreign.after = append(foreign.list, p), append(foreign.after, after)
	return nil
}

// All returns every pass that a strategy can name, in the order in which they run.
func All() []Named {
	foreign.RLock()
	defer foreign.RUnlock()
	list := builtin()
	for i, p := range foreign.list {
		at := slices.IndexFunc(list, func(o Named) bool { return o.Name == foreign.after[i] })
		list = slices.Insert(list, at+1, p)
	}
	return list
}

// List is a selection of passes.
type List struct {
	passes []Named
	// Explicit means that exactly the named passes run; otherwise each kind of device has its defaults.
	Explicit bool
}

// Select returns the passes of those names in that order; if each has a leading -, all passes but those;
// "none" means no pass. Without names it returns the defaults.
func Select(names []string) (List, error) {
	all := All()
	if len(names) == 0 {
		return List{passes: all}, nil
	}
	if len(names) == 1 && names[0] == "none" {
		return List{Explicit: true}, nil
	}
	without := strings.HasPrefix(names[0], "-")
	l := List{Explicit: !without}
	if without {
		l.passes = slices.Clone(all)
	}
	for i, name := range names {
		bare, minus := strings.CutPrefix(name, "-")
		at := slices.IndexFunc(all, func(p Named) bool { return p.Name == bare })
		switch {
		case at < 0:
			return List{}, unknown(bare, all)
		case minus != without:
			return List{}, fmt.Errorf("pass %s: want all names with a - before them, or none", name)
		case slices.Contains(names[:i], name):
			return List{}, fmt.Errorf("pass %s is named twice", name)
		case without:
			l.passes = slices.DeleteFunc(l.passes, func(p Named) bool { return p.Name == bare })
		default:
			l.passes = append(l.passes, all[at])
		}
	}
	return l, nil
}

func unknown(name string, all []Named) error {
	names := make([]string, len(all))
	for i, p := range all {
		names[i] = p.Name
	}
	return fmt.Errorf("pass %q: unknown: want some of %s; did you mean %s?", name, strings.Join(names, ", "),
		strict.Nearest(name, names))
}

// Has reports whether the list has a pass.
func (l List) Has(name string) bool {
	return slices.ContainsFunc(l.passes, func(p Named) bool { return p.Name == name })
}

// At returns the passes of a place; device-specific ones only if they were named.
func (l List) At(place Place) (list []Pass) {
	for _, p := range l.passes {
		if p.Place == place && (l.Explicit || p.For == "") {
			list = append(list, p.Pass)
		}
	}
	return list
}

// Run runs the passes of a place.
func (l List) Run(place Place, f *ir.Func) (*ir.Func, error) {
	for _, p := range l.At(place) {
		g, err := p.checked(f)
		if err != nil {
			return nil, err
		}
		f = g
	}
	return f, nil
}

// Same wraps a pass to return an error if it changes a program's parameters or results.
func Same(run func(*ir.Func) (*ir.Func, error)) func(*ir.Func) (*ir.Func, error) {
	return func(f *ir.Func) (*ir.Func, error) {
		g, err := run(f)
		if err != nil {
			return nil, err
		}
		if g == nil {
			return nil, fmt.Errorf("it made no program")
		}
		for _, v := range [][2][]*ir.Value{{f.Params(), g.Params()}, {f.Results(), g.Results()}} {
			same := func(a, b *ir.Value) bool { return a.Type().Equal(b.Type()) }
			if !slices.EqualFunc(v[0], v[1], same) {
				return nil, fmt.Errorf("it changed the program's parameters or results: want as many, of the same types")
			}
		}
		return g, nil
	}
}
