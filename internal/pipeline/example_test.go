package pipeline_test

import (
	"fmt"

	"github.com/galley-ml/galley/internal/pipeline"
)

func ExampleGenerate() {
	s, err := pipeline.Generate("1f1b", pipeline.Config{Ranks: 2, Micros: 4})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(s)
	// Output:
	// schedule 1f1b
	// place 0 1
	// micros 4
	// 0: 0F0 0F1 0B0 0F2 0B1 0F3 0B2 0B3
	// 1: 1F0 1B0 1F1 1B1 1F2 1B2 1F3 1B3
}

func ExampleLower() {
	s, err := pipeline.Parse("0F0 3F0 3B0 0B0\n1F0 2F0 2B0 1B0") // a V: stages 1 and 2 share a rank
	if err != nil {
		fmt.Println(err)
		return
	}
	program, err := pipeline.Lower(s)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(program)
	// Output:
	// place 0 1 1 0
	// micros 1
	// 0: 0F0 0SF0 3RF0 3F0 3B0 3SB0 0RB0 0B0
	// 1: 1RF0 1F0 2F0 2SF0 2RB0 2B0 1B0 1SB0
}

func ExampleCheck() {
	s, err := pipeline.Parse("0F0 0B0 0F1 0B1\n1F1 1F0 1B1 1B0")
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = pipeline.Check(s)
	fmt.Println(err)
	// Output:
	// schedule: deadlock: rank 0 waits at 0B0 for 1B0, which rank 1 does after 1F1; rank 1 waits at 1F1 for 0F1, which rank 0 does after 0B0
}

func ExampleSimulate() {
	for _, name := range pipeline.Names() {
		c := pipeline.Config{Ranks: 4, Micros: 8}
		s, err := pipeline.Generate(name, c)
		if err != nil {
			fmt.Println(err)
			return
		}
		// The same model, cut into as many stages as the schedule has.
		k := pipeline.Uniform(4/float64(s.Stages), 8/float64(s.Stages))
		line, err := pipeline.Simulate(s, k)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%-11s %4.1f, idle %.1f%%\n", name, line.Makespan, 100*line.BubbleFraction())
	}
	// Output:
	// fthenb      33.0, idle 27.3%
	// 1f1b        33.0, idle 27.3%
	// interleaved 28.5, idle 15.8%
	// zbh1        27.0, idle 11.1%
	// zbv         25.5, idle 5.9%
	// dualpipev   27.0, idle 11.1%
}
