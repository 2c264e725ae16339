package main

import (
	"errors"
	"os"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/bench"
)

type benchBurgersCmd struct {
	output
	Points  []int    `help:"Points in a step." default:"2048,10000"`
	Layers  int      `help:"Hidden layers." default:"8"`
	Width   int      `help:"Width of a hidden layer." default:"20"`
	DType   []string `name:"dtype" help:"f32, f64 or both." default:"f32,f64" enum:"f32,f64"`
	Threads []int    `help:"Threads; 0 means all cores." default:"0"`
	Runs    int      `help:"Rounds of three steps for each way." default:"10"`
	Python  string   `help:"Python interpreter with PyTorch; none leaves it out. PYTHON in the environment is the default, else python3."`
	Profile bool     `help:"Print the time of each op, too."`
}

// Help returns the text that galley bench burgers --help adds.
func (benchBurgersCmd) Help() string {
	return `Training steps of a physics-informed network for Burgers' equation, u_t + u u_x = ν u_xx: a tanh
network of two inputs, its derivatives in the loss, Adam. Derivatives are taken by Taylor series and by
gradients of gradients, and by PyTorch's, where there is one, in turns: the best time of each. All begin with
the same weights, and it is an error if their first losses differ.

Examples:
  galley bench burgers --points 2048,10000 --layers 8 --width 20 --dtype f32,f64 --threads 1,2
  galley bench burgers --points 2048 --layers 2 --python none --profile`
}

func (c *benchBurgersCmd) Run() error {
	err := positive(map[string]int{"layers": c.Layers, "width": c.Width, "runs": c.Runs})
	if err == nil && (len(c.Points) == 0 || len(c.DType) == 0 || len(c.Threads) == 0) {
		err = errors.New("--points, --dtype and --threads: want at least one of each")
	}
	for _, n := range c.Points {
		err = errors.Join(err, positive(map[string]int{"points": n}))
	}
	for _, n := range c.Threads {
		err = errors.Join(err, natural(map[string]int{"threads": n}))
	}
	if err != nil {
		return err
	}
	for _, threads := range c.Threads {
		for _, name := range c.DType {
			for _, points := range c.Points {
				dtype, err := array.ParseDType(name)
				if err != nil {
					return err
				}
				r, err := bench.Burgers(
					bench.BurgersConfig{Points: points, Layers: c.Layers, Width: c.Width, DType: dtype,
						Threads: threads, Rounds: c.Runs, Python: c.python(), Profile: c.Profile},
				)
				if err != nil {
					return err
				}
				if err := c.print(r); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// python returns the path of the Python interpreter that should have PyTorch.
func (c *benchBurgersCmd) python() string {
	switch p := os.Getenv("PYTHON"); {
	case c.Python == "none":
		return ""
	case c.Python != "":
		return c.Python
	case p != "":
		return p
	}
	return "python3"
}
