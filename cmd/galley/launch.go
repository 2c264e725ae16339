package main

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"

	"github.com/galley-ml/galley/internal/mpi"
	"github.com/galley-ml/galley/internal/mpi/launch"
	processes "github.com/galley-ml/galley/job"
)

// launchCmd starts several processes on this machine.
type launchCmd struct {
	N    int    `short:"n" name:"processes" help:"Processes, of this host; with --elastic 1 by default." placeholder:"N"`
	Bind string `help:"Bind processes to threads of the machine and memory beside them: cores, none, or auto, where it has several NUMA nodes." enum:"auto,cores,none" default:"auto"`
	elasticFlags
	Args []string `arg:"" passthrough:"" help:"A command of galley and its flags, after --." name:"command"`
}

// Help returns the text that galley launch --help adds.
func (launchCmd) Help() string {
	return `Examples:
  galley launch -n 2 -- train --mesh dp=2 --zero 1      two processes with a device each: the same losses
  galley launch -n 4 -- train --devices 8               eight devices in four processes
  galley launch -n 2 --bind cores -- train --mesh dp=2  each on half of the cores, with memory beside them
  mpirun -n 4 --bind-to none galley train --mesh tp=4   the same by Open MPI's own launcher, on one host or many
  srun -n 4 --mpi=pmi2 galley train --mesh tp=4         or by Slurm
  galley launch --elastic 1:1 -n 2 -- train --mesh dp=2 go on when a process is killed: docs/elastic.md
With MPICH installed, galley itself starts the processes and tells them of each other; with Open MPI alone,
its mpirun does. With neither, and in elastic jobs without MPICH, they are connected by TCP, which
GALLEY_TRANSPORT=tcp also asks for: no library is needed, and large exchanges take longer.
If a process fails, all end, and the exit code is that of the first which failed.`
}

func (c *launchCmd) Run() error {
	if c.Elastic != "" && c.N == 0 {
		c.N = 1
	}
	if err := positive(map[string]int{"processes": c.N}); err != nil {
		return err
	}
	if job, ok := mpi.Launched(); ok {
		return fmt.Errorf("this process was started by %s already: run galley %v without launch", job, c.command())
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	args := append([]string{self}, c.command()...)
	if err := c.check(); err != nil || c.Elastic != "" {
		if err == nil {
			err = c.runElastic(args)
		}
		return err
	}
	if withoutMPICH() {
		if run, ok := c.mpirun(args); ok {
			return exited(execute(run))
		}
		if err := bySockets(); err != nil {
			return err
		}
	}
	extra, err := c.binding()
	if err != nil {
		return err
	}
	return exited(
		launch.Run(launch.Config{N: c.N, Args: args, Stdout: os.Stdout, Stderr: os.Stderr, Extra: extra}),
	)
}

// command returns the command line that the processes run, without the dashes before it.
func (c *launchCmd) command() []string {
	if len(c.Args) > 0 && c.Args[0] == "--" {
		return c.Args[1:]
	}
	return c.Args
}

// withoutMPICH reports whether the processes need MPICH to connect and it is not installed.
func withoutMPICH() bool {
	if os.Getenv(processes.TransportVariable) != "" {
		return false // the user has chosen a transport
	}
	_, err := mpi.Library(mpi.MPICH)
	return err != nil
}

// bySockets makes the processes connect by TCP.
func bySockets() error { return os.Setenv(processes.TransportVariable, processes.SocketsName) }

// mpirun returns the command line of Open MPI's launcher, for machines without MPICH; false if Open MPI is
// missing, too. Processes are not bound to cores: each has several threads.
func (c *launchCmd) mpirun(args []string) (list []string, ok bool) {
	if _, err := mpi.Library(mpi.OpenMPI); err != nil {
		return nil, false
	}
	for _, name := range []string{"mpirun.openmpi", "mpirun"} {
		if path, err := exec.LookPath(name); err == nil {
			list := []string{path, "-n", strconv.Itoa(c.N), "--bind-to", "none", "--oversubscribe"}
			if os.Geteuid() == 0 {
				list = append(list, "--allow-run-as-root")
			}
			return append(list, args...), true
		}
	}
	return nil, false
}

// execute runs a command line until it exits and returns its exit code.
func execute(args []string) (code int, err error) {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		return 1, err
	}
	return cmd.ProcessState.ExitCode(), nil
}

// exitError is the exit code of processes that have printed their error.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// exited returns the exit code and error of a job as one error.
func exited(code int, err error) error {
	if err != nil {
		return fmt.Errorf("launch: %w", err)
	}
	if code != 0 {
		return exitError(code)
	}
	return nil
}
