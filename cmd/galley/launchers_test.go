package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/galley-ml/galley/internal/deploy"
)

// TestLaunchersAlike: one command line has the same losses by hand and by every launcher that is installed.
func TestLaunchersAlike(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts a dozen processes")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	train := append(strings.Fields("train --steps=3 --mesh=dp=2 --zero=1"), tinyRun...)
	want := losses(t, galleyCommand(t, train...))
	for name, line := range map[string]string{
		"launch": self + " launch -n 2 --",
		"mpirun": "mpirun.openmpi -n 2 --bind-to none --oversubscribe --allow-run-as-root " + self,
		"hydra":  "mpiexec.hydra -n 2 " + self,
	} {
		t.Run(name, func(t *testing.T) {
			words := strings.Fields(line)
			if _, err := exec.LookPath(words[0]); err != nil {
				t.Skipf("%s is not installed", words[0])
			}
			if name == "launch" {
				needMPICH(t)
			}
			cmd := exec.CommandContext(t.Context(), words[0], append(words[1:], train...)...)
			cmd.Env = commandEnv()
			if got := losses(t, cmd); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
	for _, mpi := range []string{"pmi2", "pmix"} {
		t.Run("srun "+mpi, func(t *testing.T) {
			words := append([]string{"srun", "-n", "2", "--mpi=" + mpi, self}, train...)
			if got := losses(t, inSlurm(t, words...)); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
	for name, shape := range map[string]string{"two hosts": "none",
		"two hosts, 1 Gbit/s": "tbf rate 1gbit burst 1mb latency 50ms", "two hosts, 1 ms": "netem delay 1ms"} {
		t.Run(name, func(t *testing.T) {
			words := append([]string{"mpiexec.hydra", "-n", "2", "../../bench/onhost.sh", self}, train...)
			if got := losses(t, onTwoHosts(t, shape, words...)); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
	t.Run("sbatch", func(t *testing.T) {
		dir := t.TempDir()
		text, err := deploy.Slurm{
			Name:      "test",
			Hosts:     deploy.Hosts{Least: 1, Most: 1},
			Processes: 2,
			MPI:       "pmi2",
			Grace:     60,
			Galley:    self,
			Args:      append(train, "--checkpoint="+filepath.Join(dir, "run")),
		}.Text()
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "job.sh"), []byte(text), 0o700)
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := losses(t, inSlurm(t, "bash", "-c",
			"cd "+dir+"; sbatch --quiet --wait job.sh; cat *.log")); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// inSlurm runs a command where Slurm has this machine.
func inSlurm(t *testing.T, words ...string) *exec.Cmd {
	t.Helper()
	for _, tool := range []string{"munged", "slurmctld", "slurmd", "srun", "unshare"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("Slurm is not installed: no %s", tool)
		}
	}
	if os.Geteuid() != 0 {
		t.Skip("slurmd needs root")
	}
	cmd := exec.CommandContext(t.Context(), "../../bench/slurm.sh", words...)
	cmd.Env = commandEnv()
	return cmd
}

// onTwoHosts runs a command where this machine is two, joined by a link of some shape.
func onTwoHosts(t *testing.T, shape string, words ...string) *exec.Cmd {
	t.Helper()
	if _, err := exec.LookPath(words[0]); err != nil {
		t.Skipf("%s is not installed", words[0])
	}
	if out, err := exec.Command("../../bench/namespaces.sh", shape, "true").CombinedOutput(); err != nil {
		t.Skipf("no two hosts here: %s", out)
	}
	cmd := exec.CommandContext(t.Context(), "../../bench/namespaces.sh", append([]string{shape}, words...)...)
	cmd.Env = commandEnv()
	return cmd
}

// losses returns what a command prints of its steps.
func losses(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	return strings.Join(lossLine.FindAllString(strings.ReplaceAll(string(out), "\r", ""), -1), "\n")
}
