package pipeline

import (
	"math"
	"testing"
)

// costs of one chunk that the closed forms are compared under.
func costs(f, i, w float64) Costs {
	return Costs{Forward: []float64{f}, Input: []float64{i}, Weight: []float64{w}}
}

func TestBubbleEqualsSimulation(t *testing.T) {
	var sim Simulator
	ratios := []Costs{costs(1, 1, 1), costs(10, 12, 8), costs(12, 10, 8), costs(8, 12, 10), costs(8, 8, 8), costs(3, 1, 1), costs(10, 14, 6), costs(5, 9, 7), costs(9, 5, 7), costs(2, 1, 3), costs(1, 2, 3)}
	compared := map[string]int{}
	for _, name := range Names() {
		for ranks := 1; ranks <= 9; ranks++ {
			for micros := 1; micros <= 3*ranks+2; micros++ {
				for chunks := 0; chunks <= 4; chunks++ {
					c := Config{Ranks: ranks, Micros: micros, Chunks: chunks}
					if chunks > 0 && name != "interleaved" {
						continue
					}
					s, err := Generate(name, c)
					if err != nil {
						t.Fatal(err)
					}
					for _, k := range ratios {
						want, err := Bubble(name, c, k)
						if err != nil {
							continue
						}
						line, err := sim.Run(s, &k)
						if err != nil {
							t.Fatalf("%s %+v: %v", name, c, err)
						}
						compared[name]++
						if got := line.LongestIdle(); math.Abs(got-want) > 1e-9*(1+want) {
							t.Errorf("%s %+v F=%v I=%v W=%v: simulated bubble %v, formula %v", name, c, k.Forward[0], k.Input[0], k.Weight[0], got, want)
						}
					}
				}
			}
		}
	}
	t.Log(compared)
}
