package mpi

import (
	"strings"
	"testing"
)

// TestLaunchers: who started a process, within whom, and why nobody did, by its environment.
func TestLaunchers(t *testing.T) {
	for _, test := range []struct{ env, launcher, within, alone string }{
		{"", "", "", ""},
		{"PMI_RANK=1 PMI_SIZE=2", "mpiexec", "", ""},
		{"PMI_RANK=1 PMI_SIZE=2 GALLEY_LAUNCH=1", "galley launch", "", ""},
		{"OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 PMIX_RANK=0", "mpirun", "", ""},
		{"PMI_RANK=1 PMI_SIZE=2 SLURM_PROCID=1", "srun", "", ""},
		{"PMIX_RANK=1 SLURM_NTASKS=2 SLURM_PROCID=1", "srun", "", ""},
		{"OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 PMI_RANK=1 PMI_SIZE=2 SLURM_PROCID=1", "mpirun", "srun",
			""},
		{"OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 PMI_RANK=1 PMI_SIZE=2 GALLEY_LAUNCH=1", "mpirun",
			"galley launch", ""},
		{"OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 PMI_RANK=1 PMI_SIZE=2", "mpirun", "mpiexec", ""},
		{"PMI_RANK=1 PMI_SIZE=2 GALLEY_LAUNCH=1 SLURM_PROCID=0", "galley launch", "srun", ""},
		{"SLURM_PROCID=0 SLURM_NTASKS=4", "", "", "--mpi=pmi2"},
		{"SLURM_PROCID=0 SLURM_NTASKS=1", "", "", ""},
		{"MASTER_ADDR=a RANK=0 WORLD_SIZE=4", "", "", "PyTorchJob"},
	} {
		env := map[string]string{}
		for word := range strings.FieldsSeq(test.env) {
			k, v, _ := strings.Cut(word, "=")
			env[k] = v
		}
		get := func(name string) string { return env[name] }
		job, _ := launched(get)
		if why := alone(get); job.Launcher != test.launcher || within(get) != test.within ||
			!strings.Contains(why, test.alone) || (why == "") != (test.alone == "") {
			t.Errorf("%s: got %q within %q, %q, want %+v", test.env, job.Launcher, within(get), why, test)
		}
	}
}
