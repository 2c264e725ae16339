package strategy

import (
	"fmt"
	"strings"

	"github.com/galley-ml/galley/internal/pass"
	"github.com/galley-ml/galley/op"
)

// Pass is a rewrite of programs that FusedPasses can name.
type Pass struct {
	Name string
	// About is one line for people.
	About string
	// Place is what it rewrites: loss, before the gradient is taken, program, before that is split over devices,
	// or device, what one device runs. For is which devices have it unasked; empty is all.
	Place, For string
}

// Passes lists all of them in the order in which they are done.
func Passes() (list []Pass) {
	for _, p := range pass.All() {
		list = append(list, Pass{Name: p.Name, About: p.About, Place: string(p.Place), For: p.For})
	}
	return list
}

// RegisterPass adds a rewrite under its name, right behind the pass called after and at the same place: fold,
// merge and prune see whole programs, gemm_epilogue and loops what one device runs, join the loss before its
// gradient. Every program meets it then, unless FusedPasses leaves it out. Parameters and results keep their
// number and types, or it is an error.
func RegisterPass(p Pass, after string, run func(*op.Program) (*op.Program, error)) error {
	if run == nil {
		return fmt.Errorf("pass %s: it has no function", p.Name)
	}
	return pass.Register(pass.Named{Pass: pass.Pass{Name: p.Name, Run: pass.Same(run)}, About: p.About}, after)
}

// ParsePasses reads FusedPasses from names with commas or plus signs between them: fold,merge,prune; -loops;
// none.
func ParsePasses(text string) ([]string, error) {
	list := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == '+' || r == ' ' })
	_, err := pass.Select(list)
	return list, err
}
