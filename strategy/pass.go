package strategy

import (
	"fmt"
	"strings"

	"github.com/galley-ml/galley/internal/pass"
	"github.com/galley-ml/galley/op"
)

// Pass is a program rewrite that FusedPasses can name.
type Pass struct {
	Name string
	// About describes it in one line.
	About string
	// Place is where it runs: on the loss before differentiation, on the program before it is partitioned, or
	// on the program of one device. For lists the kinds of devices that run it by default; empty means all.
	Place, For string
}

// Passes lists all passes in execution order.
func Passes() (list []Pass) {
	for _, p := range pass.All() {
		list = append(list, Pass{Name: p.Name, About: p.About, Place: string(p.Place), For: p.For})
	}
	return list
}

// RegisterPass adds a rewrite right after the named pass and at the same place: fold, merge and prune see
// whole programs, gemm_epilogue and loops the program of one device, join the loss before differentiation. It
// then runs on every program unless FusedPasses excludes it. It must keep the number and types of parameters
// and results.
func RegisterPass(p Pass, after string, run func(*op.Program) (*op.Program, error)) error {
	if run == nil {
		return fmt.Errorf("pass %s: it has no function", p.Name)
	}
	return pass.Register(pass.Named{Pass: pass.Pass{Name: p.Name, Run: pass.Same(run)}, About: p.About}, after)
}

// ParsePasses reads FusedPasses from names separated by commas or plus signs: fold,merge,prune; -loops; none.
func ParsePasses(text string) ([]string, error) {
	list := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == '+' || r == ' ' })
	_, err := pass.Select(list)
	return list, err
}
