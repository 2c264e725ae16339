package deploy

import (
	"fmt"
	"strings"
)

// Slurm is a job for sbatch.
type Slurm struct {
	Name  string
	Hosts Hosts
	// Processes is how many run on a host, Cores how many cores each has; 0 leaves that to Slurm.
	Processes, Cores int
	// Time is a limit, Partition and Account where it counts, as Slurm writes them; empty is its default.
	Time, Partition, Account string
	// MPI is Slurm's plugin: pmi2 for MPICH, pmix for Open MPI.
	MPI string
	// Grace is how many seconds before its end a job is told.
	Grace int
	// Galley is the program, Args a command of it.
	Galley string
	Args   []string
}

// Text returns the batch file. A job that is ended before it is done is queued again. An elastic one has an
// agent on each host, and etcd on the first of them.
func (s Slurm) Text() (string, error) {
	if err := check(s.Args); err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("#!/bin/bash\n")
	s.options(&b)
	b.WriteString("set -uo pipefail\n\n")
	if s.Hosts.Elastic() {
		s.elastic(&b)
	} else {
		fmt.Fprintf(&b, "srun --mpi=%s --kill-on-bad-exit=1 %s\n", s.MPI,
			quoted(append([]string{s.Galley}, s.Args...)))
	}
	b.WriteString("code=$?\n\n")
	b.WriteString("# The signal above ends training after a step, with its state saved: the rest comes in " +
		"the next turn.\n")
	b.WriteString("if [ \"$code\" = 143 ]; then\n\tscontrol requeue \"$SLURM_JOB_ID\"\nfi\nexit \"$code\"\n")
	return b.String(), nil
}

// options is what sbatch is told.
func (s Slurm) options(b *strings.Builder) {
	option := func(format string, args ...any) { fmt.Fprintf(b, "#SBATCH --"+format+"\n", args...) }
	option("job-name=%s", s.Name)
	if s.Hosts.Elastic() {
		option("nodes=%d-%d", s.Hosts.Least, s.Hosts.Most)
		option("ntasks-per-node=1")
		if s.Cores > 0 {
			option("cpus-per-task=%d", s.Cores*s.Processes)
		}
		option("no-kill")
	} else {
		option("nodes=%d", s.Hosts.Most)
		option("ntasks-per-node=%d", s.Processes)
		if s.Cores > 0 {
			option("cpus-per-task=%d", s.Cores)
		}
	}
	for _, o := range []struct{ name, value string }{{"time", s.Time}, {"partition", s.Partition},
		{"account", s.Account}} {
		if o.value != "" {
			option("%s=%s", o.name, o.value)
		}
	}
	option("signal=TERM@%d", s.Grace)
	option("requeue")
	option("open-mode=append")
	option("output=%%x-%%j.log")
}

// elastic starts an agent on each host.
func (s Slurm) elastic(b *strings.Builder) {
	fmt.Fprintf(b, "# etcd, by which hosts agree, runs beside the first %d of them.\n", s.Hosts.voters())
	fmt.Fprintf(b, "voters=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n %d | paste -sd, -)\n",
		s.Hosts.voters())
	fmt.Fprintf(b, "srun --mpi=none --ntasks-per-node=1 --no-kill --wait=0 \\\n\t%s launch --elastic %s -n %d "+
		"--job \"$SLURM_JOB_ID\" \\\n\t--etcd \"embedded=$voters\" -- %s\n", quoted([]string{s.Galley}), s.Hosts,
		s.Processes, quoted(s.Args))
}
