package mpi

import (
	"fmt"
	"os"
	"strconv"
)

// Job is what a launcher passes to the processes that it starts.
type Job struct {
	// Launcher names the program that started the process.
	Launcher string
	// Rank and Size are its rank and the number of processes; Size is 0 if the launcher does not pass it.
	Rank, Size int
	// Family is the kind of MPI library that the launcher supports.
	Family Family
}

// Family is a kind of MPI library, with its own binary interface.
type Family string

// The families.
const (
	OpenMPI Family = "Open MPI"
	MPICH   Family = "MPICH"
)

// String prints the launcher and the rank: mpirun (Open MPI), process 1 of 4.
func (j Job) String() string {
	if j.Size == 0 {
		return fmt.Sprintf("%s (%s), process %d", j.Launcher, j.Family, j.Rank)
	}
	return fmt.Sprintf("%s (%s), process %d of %d", j.Launcher, j.Family, j.Rank, j.Size)
}

// launchers lists the launchers and the variables by which they are recognized: the innermost first, since a
// process that mpirun starts within srun has the variables of both.
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

// Launched returns the job that this process is part of, by its environment; false if it was started by
// itself.
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

// Within returns the outer launcher if this process's launcher runs within another, as mpirun may within
// srun; empty if there is none.
func Within() string { return within(os.Getenv) }

func within(getenv func(string) string) string {
	job, ok := launched(getenv)
	if !ok {
		return ""
	}
	for _, l := range launchers {
		if l.name == job.Launcher || l.name == "mpiexec" && job.Family == MPICH {
			continue // its own variables
		}
		if getenv(l.rank) != "" && (l.also == "" || getenv(l.also) != "") && l.family != job.Family {
			return l.name
		}
	}
	if job.Launcher != "srun" && getenv("SLURM_PROCID") != "" {
		return "srun"
	}
	return ""
}

// Alone explains why a process that was started as one of many runs by itself; empty if it was not.
func Alone() string { return alone(os.Getenv) }

func alone(getenv func(string) string) string {
	if _, ok := launched(getenv); ok {
		return ""
	}
	if n, _ := strconv.Atoi(getenv("SLURM_NTASKS")); n > 1 && getenv("SLURM_PROCID") != "" {
		return fmt.Sprintf("srun has started %d processes that do not know of each other: want --mpi=pmi2 or "+
			"--mpi=pmix", n)
	}
	if n, _ := strconv.Atoi(getenv("WORLD_SIZE")); n > 1 && getenv("RANK") != "" && getenv("MASTER_ADDR") != "" {
		return fmt.Sprintf("torchrun or a PyTorchJob has started %d processes: they are hosts of galley launch "+
			"--elastic 1:%[1]d "+
			"--etcd embedded=$MASTER_ADDR", n)
	}
	return ""
}
