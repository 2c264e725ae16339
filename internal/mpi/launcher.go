package mpi

import (
	"fmt"
	"os"
	"strconv"
)

// Job is what a launcher tells the processes that it starts.
type Job struct {
	// Launcher is who started the process.
	Launcher string
	// Rank and Size are its place and the number of processes; Size is 0 where the launcher does not say.
	Rank, Size int
	// Family is the kind of library that the launcher can serve.
	Family Family
}

// Family is a kind of MPI library: what its handles are.
type Family string

// The families.
const (
	OpenMPI Family = "Open MPI"
	MPICH   Family = "MPICH"
)

// String says who started the process: mpirun (Open MPI), process 1 of 4.
func (j Job) String() string {
	if j.Size == 0 {
		return fmt.Sprintf("%s (%s), process %d", j.Launcher, j.Family, j.Rank)
	}
	return fmt.Sprintf("%s (%s), process %d of %d", j.Launcher, j.Family, j.Rank, j.Size)
}

// launchers are the ways to be started, by the variables that say so: the innermost first, since a process
// that mpirun starts within srun has the variables of both.
var launchers = []struct {
	name       string
	rank, size string
	also       string // a variable that must be set, too
	family     Family
}{
	{"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "", OpenMPI},
	{"galley launch", "PMI_RANK", "PMI_SIZE", LaunchVariable, MPICH},
	{"srun", "PMI_RANK", "PMI_SIZE", "SLURM_PROCID", MPICH},
	{"mpiexec", "PMI_RANK", "PMI_SIZE", "", MPICH},
	{"srun", "PMIX_RANK", "SLURM_NTASKS", "SLURM_PROCID", OpenMPI},
	{"a PMIx launcher", "PMIX_RANK", "", "", OpenMPI},
}

// LaunchVariable is set by galley's own launcher.
const LaunchVariable = "GALLEY_LAUNCH"

// Launched is the job that this process is part of, by its environment; false if it was started by itself.
func Launched() (Job, bool) { return launched(os.Getenv) }

func launched(getenv func(string) string) (Job, bool) {
	for _, l := range launchers {
		rank, err := strconv.Atoi(getenv(l.rank))
		if err != nil || l.also != "" && getenv(l.also) == "" {
			continue
		}
		size := 0
		if l.size != "" {
			size, _ = strconv.Atoi(getenv(l.size))
		}
		return Job{Launcher: l.name, Rank: rank, Size: size, Family: l.family}, true
	}
	return Job{}, false
}

// Launchers is every launcher whose variables are seen: more than one where one runs within another.
func Launchers() []string {
	var names []string
	seen := map[string]bool{}
	for _, l := range launchers {
		name := l.name
		if name == "mpiexec" && seen["galley launch"] || os.Getenv(l.rank) == "" ||
			l.also != "" && os.Getenv(l.also) == "" || seen[name] || l.rank == "PMI_RANK" && seen["by PMI"] {
			continue
		}
		seen[name], seen["by PMI"] = true, seen["by PMI"] || l.rank == "PMI_RANK"
		names = append(names, name)
	}
	return names
}
