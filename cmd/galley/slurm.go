package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/galley-ml/galley/internal/deploy"
)

// hostFlags give the hosts of a job.
type hostFlags struct {
	Hosts     string `help:"Hosts: a number, or at least and at most how many, between which the job is elastic." default:"1" placeholder:"N|MIN:MAX"`
	Processes int    `short:"n" help:"Processes on a host." default:"1"`
	Cores     int    `help:"Cores of a process; 0 leaves that to the system."`
	Grace     int    `help:"Seconds for a job to save its state before it is ended." default:"60"`
}

// parse checks the flags and returns the least and the largest number of hosts.
func (f hostFlags) parse() (h deploy.Hosts, err error) {
	if err := positive(map[string]int{"processes": f.Processes, "grace": f.Grace}); err != nil {
		return h, err
	}
	if err := natural(map[string]int{"cores": f.Cores}); err != nil {
		return h, err
	}
	lo, hi, elastic := strings.Cut(f.Hosts, ":")
	if !elastic {
		hi = lo
	}
	least, err1 := strconv.Atoi(lo)
	most, err2 := strconv.Atoi(hi)
	if err1 != nil || err2 != nil || least < 1 || most < least || elastic && most == least {
		return h, fmt.Errorf("--hosts=%s: want a number, or at least and at most how many, such as 2:8", f.Hosts)
	}
	return deploy.Hosts{Least: least, Most: most}, nil
}

// slurmCmd writes a Slurm batch file.
type slurmCmd struct {
	hostFlags
	Name      string   `help:"Name of the job." default:"galley"`
	Time      string   `help:"Limit of time, as Slurm writes it." placeholder:"HH:MM:SS"`
	Partition string   `help:"Partition." placeholder:"NAME"`
	Account   string   `help:"Account." placeholder:"NAME"`
	MPI       string   `help:"Slurm's interface for starting MPI processes: pmi2 for MPICH, pmix for Open MPI." default:"pmi2" enum:"pmi2,pmix"`
	Program   string   `help:"The program, as hosts find it." default:"galley"`
	Args      []string `arg:"" passthrough:"" help:"A command of galley and its flags, after --." name:"command"`
}

// Help returns the text that galley slurm --help adds.
func (slurmCmd) Help() string {
	return `Prints a file for sbatch. A job that is ended before it is done, by its limit of time or a host that
is needed, has --grace seconds to save its state; it is queued again, and goes on from its checkpoint. With
--hosts MIN:MAX it is elastic: each host has an agent, hosts may fail and come back, and etcd runs beside the
first of them.

Examples:
  galley slurm --hosts 4 -n 8 -- train --mesh dp=32 --checkpoint /shared/run > job.sh
  galley slurm --hosts 2:8 -n 8 --time 24:00:00 -- train --mesh dp=16 --checkpoint /shared/run > job.sh
  sbatch job.sh`
}

func (c *slurmCmd) Run() error {
	hosts, err := c.parse()
	if err != nil {
		return err
	}
	for flag, value := range map[string]string{"name": c.Name, "time": c.Time, "partition": c.Partition,
		"account": c.Account} {
		if strings.ContainsAny(value, " \t\n\r") {
			return fmt.Errorf("--%s=%q: Slurm reads no spaces there", flag, value)
		}
	}
	return toStdout(deploy.Slurm{Name: c.Name, Hosts: hosts, Processes: c.Processes, Cores: c.Cores,
		Time:      c.Time,
		Partition: c.Partition, Account: c.Account, MPI: c.MPI, Grace: c.Grace, Galley: c.Program,
		Args: behindDashes(c.Args)}.Text())
}

// toStdout writes a text to standard output.
func toStdout(text string, err error) error {
	if err == nil {
		_, err = os.Stdout.WriteString(text)
	}
	return err
}

// behindDashes returns a command line without the dashes before it.
func behindDashes(args []string) []string {
	if len(args) > 0 && args[0] == "--" {
		return args[1:]
	}
	return args
}
