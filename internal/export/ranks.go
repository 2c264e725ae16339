package export

import (
	"fmt"
	"slices"
	"strings"

	"github.com/galley-ml/galley/internal/cluster"
)

// Launchers lists the launchers that Ranks supports.
func Launchers() []string { return []string{"mpirun", "slurm"} }

// Places reports whether Ranks supports a launcher.
func Places(launcher string) bool { return slices.Contains(Launchers(), launcher) }

// Ranks places a process for each device of a plan: process i on device order[i] of the cluster, or on device
// i without an order. For mpirun it returns a rank file, for Slurm the lines of a batch file; hosts are those
// of the allocation, in its order.
func Ranks(launcher string, c *cluster.Cluster, order []int) (string, error) {
	n := c.Size()
	if order == nil {
		order = make([]int, n)
		for i := range order {
			order[i] = i
		}
	}
	var b strings.Builder
	switch launcher {
	case "mpirun":
		fmt.Fprintf(&b, "# mpirun -n %d --rankfile FILE galley train --plan plan.yaml\n", len(order))
		for rank, device := range order {
			at := c.At(device)
			fmt.Fprintf(&b, "rank %d=+n%d slot=%d\n", rank, at.Host, at.Local)
		}
	case "slurm":
		hosts := make([]string, len(order))
		for rank, device := range order {
			hosts[rank] = fmt.Sprint(c.At(device).Host)
		}
		fmt.Fprintf(&b, `mapfile -t hosts < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
for i in %s; do echo "${hosts[$i]}"; done > ranks.txt
export SLURM_HOSTFILE=$PWD/ranks.txt
srun --distribution=arbitrary --ntasks=%d --mpi=pmi2 galley train --plan plan.yaml
`, strings.Join(hosts, " "), len(order))
	default:
		return "", fmt.Errorf(
			"export: unknown launcher %q: want one of %s",
			launcher,
			strings.Join(Launchers(), ", "),
		)
	}
	return b.String(), nil
}
