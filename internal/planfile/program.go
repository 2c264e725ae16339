package planfile

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/strict"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/strategy"
	"github.com/goccy/go-yaml"
)

// ProgramVersion is that of the files of programs' plans that this package writes.
const ProgramVersion = 1

// Program is a plan for a program of your own: a strategy, and the layout of each of its parameters and of
// the tensors of its batch along the tensor axis.
type Program struct {
	Version int `yaml:"galley_program_plan"`
	// Program is a hash of the forward program: a plan for another one is refused.
	Program string `yaml:"program"`
	// Machine is what it was made for, in words.
	Machine  string            `yaml:"machine"`
	Strategy strategy.Strategy `yaml:"strategy"`
	// Weights is the layouts of parameters that are split, by name; the others are whole. Inputs is those of the
	// batch, besides rows by the data axes.
	Weights map[string]string `yaml:"weights,omitempty"`
	Inputs  []string          `yaml:"inputs"`
	// Seconds is what a step should take, Bound what no plan is below, Bytes what the largest device takes.
	Seconds float64 `yaml:"step_seconds"`
	Bound   float64 `yaml:"bound_seconds"`
	Bytes   int64   `yaml:"device_bytes"`
}

// HashOf returns a hash of a program: its ops and types, not the lines that they stand on.
func HashOf(f *ir.Func) string {
	h := sha256.New()
	for _, v := range f.Params() {
		fmt.Fprintln(h, v.ID(), v.Name(), v.Type())
	}
	for _, n := range f.Nodes() {
		fmt.Fprint(h, ir.FormatOp(n.Op()))
		writeIDs(h, n.In())
		writeIDs(h, n.Out())
	}
	writeIDs(h, f.Results())
	return hex.EncodeToString(h.Sum(nil))[:16]
}

func writeIDs(w io.Writer, vs []*ir.Value) {
	for _, v := range vs {
		fmt.Fprint(w, " ", v.ID())
	}
	fmt.Fprintln(w, " .")
}

// programHead explains a file to who opens it.
const programHead = "# A plan of galley for a program of one's own: galley.LoadPlan reads it. The " +
	"strategy may be edited.\n"

// YAML returns the file as text.
func (p *Program) YAML() ([]byte, error) {
	text, err := yaml.MarshalWithOptions(p, yaml.Indent(2))
	if err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	return append([]byte(programHead), text...), nil
}

// Save writes the file; one that is there is replaced, at once or not at all.
func (p *Program) Save(path string) error {
	text, err := p.YAML()
	if err != nil {
		return err
	}
	return save(path, text)
}

// LoadProgram reads a file and checks it.
func LoadProgram(path string) (*Program, error) {
	text, err := strict.ReadFile(path, strict.Config)
	if err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	p, err := ParseProgram(text)
	if err != nil {
		return nil, fmt.Errorf("plan %s: %w", path, err)
	}
	return p, nil
}

// ParseProgram reads the text of a file. Mistakes are named with line and column where they have one.
func ParseProgram(text []byte) (*Program, error) {
	p := &Program{}
	if err := strict.YAML(text, p); err != nil {
		return nil, err
	}
	return p, p.check()
}

func (p *Program) check() error {
	if p.Version != ProgramVersion {
		return fmt.Errorf("galley_program_plan: got version %d, want %d: make a new one with galley.Plan",
			p.Version,
			ProgramVersion)
	}
	if p.Program == "" {
		return errors.New("program: want the hash of the program that it is for")
	}
	if err := p.Strategy.Check(); err != nil {
		return err
	}
	for name, text := range p.Weights {
		if _, err := mesh.ParseSharding(text); err != nil {
			return fmt.Errorf("weights: %s: %w", name, err)
		}
	}
	for i, text := range p.Inputs {
		if _, err := mesh.ParseSharding(text); err != nil {
			return fmt.Errorf("inputs: tensor %d: %w", i, err)
		}
	}
	return nil
}
