package main

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/galley-ml/galley/internal/mpi"
	processes "github.com/galley-ml/galley/job"
)

// job is the processes that mpirun or another launcher started; nil if this process was started alone.
var job *processes.Job

// together are the commands that several processes can run as one job.
var together = []string{"train", "trace", "doctor", "plan", "bench comm"}

// inJob runs a command, as part of a job if the process is in one: the first process prints the output, and
// the error of whichever process fails.
func inJob(ctx *kong.Context) error {
	launched, ok := mpi.Launched()
	name := strings.Join(slices.DeleteFunc(strings.Fields(ctx.Command()),
		func(word string) bool { return strings.HasPrefix(word, "<") }), " ")
	if !ok || name == "launch" || name == "version" {
		if why := mpi.Alone(); why != "" && name == "train" {
			fmt.Fprintf(os.Stderr, "galley: note: this process trains by itself: %s\n", why)
		}
		return ctx.Run()
	}
	var err error
	if job, err = processes.Join(); err != nil {
		return fmt.Errorf("%w: %w", errJoin, err)
	}
	err = meetElastic()
	switch {
	case job == nil:
		return ctx.Run()
	case err != nil:
		return end(job, err)
	}
	job.OnFailure(tell)
	return end(job, runTogether(ctx, name, launched))
}

// end leaves a job; the error that it returns has been printed.
func end(j *processes.Job, err error) error {
	if err := j.End(err, tell); err != nil {
		return &printedError{err}
	}
	return nil
}

// printedError is an error that has been printed already.
type printedError struct{ error }

// Unwrap returns the error itself.
func (e *printedError) Unwrap() error { return e.error }

// reportInJob reports a mistake on the command line. Perhaps only this process of a job made it, so it joins
// the job to report it: the others would wait forever.
func reportInJob(err error) error {
	if _, ok := mpi.Launched(); !ok || elastic != nil {
		return err
	}
	j, failed := processes.Join()
	if failed != nil || j == nil {
		return err
	}
	return end(j, err)
}

// silence discards the output of the processes of a job other than the first.
func silence() {
	if launched, ok := mpi.Launched(); !ok || launched.Rank == 0 {
		return
	}
	if null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0); err == nil {
		os.Stdout, os.Stderr = null, null
	}
}

func runTogether(ctx *kong.Context, name string, launched mpi.Job) error {
	if !slices.Contains(together, name) {
		return fmt.Errorf(
			"galley %s is for one process: %s has started %d: run it without",
			name,
			launched.Launcher,
			job.Size(),
		)
	}
	if cores, of, bound := job.Bound(); bound && cores == 1 && name == "train" {
		fmt.Fprintf(os.Stderr, "galley: note: %s has bound each process to one core of %d: with Open MPI, "+
			"--bind-to none lets it use more\n", launched.Launcher, of)
	}
	return ctx.Run()
}

// keepTo limits Go to the threads of this process if it shares its host: threads that collect garbage or look
// for work would take cores that other processes compute on, and all wait for the slowest. A GOMAXPROCS that
// the user has set is kept.
func keepTo(threads int) {
	if job.Neighbours() > 1 && os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(threads)
	}
}

// describeJob returns a short description of the job.
func describeJob() string {
	text := fmt.Sprintf(
		"%d processes, started by %s, connected by %s",
		job.Size(),
		job.Launcher(),
		job.Library(),
	)
	if outer := mpi.Within(); outer != "" {
		text += fmt.Sprintf("; it runs within %s: the inner one counts", outer)
	}
	return text
}

// libraries returns the MPI libraries that would be loaded, by family.
func libraries() string {
	var found []string
	for _, f := range []mpi.Family{mpi.OpenMPI, mpi.MPICH} {
		if version, err := mpi.Library(f); err == nil {
			found = append(found, version)
		}
	}
	if found == nil {
		return "none: install Open MPI or MPICH to train on several processes"
	}
	return strings.Join(found, ", ")
}
