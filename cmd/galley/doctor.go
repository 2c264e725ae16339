package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/backend"
	"github.com/galley-ml/galley/internal/bench"
	"github.com/galley-ml/galley/internal/jit"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/internal/mpi"
	"github.com/galley-ml/galley/internal/xla"
)

// doctorCmd prints what this machine offers.
type doctorCmd struct {
	Fast    bool   `help:"Skip the short measurements."`
	Cluster bool   `help:"Say what the machine is made of and, under a launcher, what joins its processes."`
	Output  string `short:"o" help:"With --cluster: file to write the cluster to, YAML or .json, for galley plan."`
}

// Help returns the text that galley doctor --help adds.
func (doctorCmd) Help() string {
	return `Examples:
  galley doctor            cores, CPU features, memory, plugins, and the speed of a matrix product
  galley doctor --fast     the same without the measurement
  mpirun -n 4 galley doctor --fast   … and which processes the launcher has started
  galley doctor --cluster            caches, NUMA, network cards, GPUs and their links
  galley launch -n 2 -- doctor --cluster -o cluster.json
                                     … latency, bandwidth and collectives between processes, as a cluster
                                     file: galley plan llama-3-8b cluster.json prices with what was measured`
}

func (c *doctorCmd) Run() error {
	switch {
	case c.Output != "" && !c.Cluster:
		return fmt.Errorf("--output: it is where --cluster writes: give both")
	case c.Cluster && c.Fast:
		return fmt.Errorf("--fast: --cluster measures: want one of them")
	case c.Cluster:
		return c.discover()
	}
	fmt.Printf("go        %s %s/%s\n", runtime.Version(), runtime.GOOS, runtime.GOARCH)
	fmt.Printf("cores     %d\n", runtime.NumCPU())
	fmt.Printf("cpu       %s\n", orUnknown(cpuName()))
	fmt.Printf("kernels   %s\n", strings.Join(kernel.Features(), " "))
	fmt.Printf("loops     %s\n", loops())
	fmt.Printf("memory    %s\n", memory())
	fmt.Printf("plugins   %s\n", plugins())
	fmt.Printf("mpi       %s\n", libraries())
	if why := mpi.Alone(); why != "" {
		fmt.Printf("job       none: %s\n", why)
	}
	if job != nil {
		fmt.Printf("job       %s\n", describeJob())
		for q := range job.Size() {
			fmt.Printf("          %s\n", job.Name(q))
		}
	}
	if c.Fast {
		return nil
	}
	for _, threads := range []int{1, runtime.NumCPU()} {
		r, err := bench.Gemm(bench.GemmConfig{N: 768, Threads: threads, Runs: 5, DType: array.F32})
		if err != nil {
			return err
		}
		fmt.Printf("matmul    %.0f GFLOP/s with %d thread(s), f32\n", r.GFLOPS, threads)
		if runtime.NumCPU() == 1 {
			break
		}
	}
	d := galley.CPU(galley.Config{})
	defer d.Close()
	fmt.Printf("default   cpu backend, %d thread(s)\n", d.Threads())
	return nil
}

// loops returns, as text, how fused ops run.
func loops() string {
	set, err := jit.Best()
	if err != nil {
		return "by the kernels, in strips: " + err.Error()
	}
	return fmt.Sprintf("generated code, %v", set)
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}

// cpuName returns the processor's name as Linux reports it.
func cpuName() string { return field("/proc/cpuinfo", "model name") }

// field returns the value of the first line of a file that begins with key.
func field(path, key string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for line := range strings.SplitSeq(string(text), "\n") {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == key {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

func memory() string {
	total := memoryOf("MemTotal")
	if total == 0 {
		return "unknown"
	}
	return gigabytes(total) + " in all, " + gigabytes(memoryOf("MemAvailable")) + " available"
}

// plugins returns, as text, the accelerator that was found, or what is missing.
func plugins() string {
	b, err := galley.XLA(galley.XLAConfig{})
	if err != nil {
		return err.Error() + "; the CPU needs none"
	}
	defer b.Close()
	name := b.Name()
	if g, ok := b.(backend.Group); ok && len(g.Devices()) > 1 {
		name = fmt.Sprintf("%d devices, the first is %s", len(g.Devices()), name)
	}
	return fmt.Sprintf("%s, by %s", name, xla.Find()[0])
}
