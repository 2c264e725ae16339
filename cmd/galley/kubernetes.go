package main

import (
	"fmt"
	"math"
	"regexp"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/internal/deploy"
	"github.com/galley-ml/galley/internal/forecast"
)

// kubernetesCmd writes a Kubernetes manifest.
type kubernetesCmd struct {
	hostFlags
	Kind      string   `help:"What the manifest is of: JobSet, Job (an indexed one, with a service for names), or PyTorchJob." default:"JobSet" enum:"JobSet,Job,PyTorchJob"`
	Name      string   `help:"Name of the job." default:"galley"`
	Namespace string   `help:"Namespace." default:"default"`
	Image     string   `help:"Image that has galley on its path." required:"" placeholder:"IMAGE"`
	Memory    string   `help:"Memory of a pod." placeholder:"64Gi"`
	GPUs      int      `name:"gpus" help:"GPUs of a pod."`
	Shared    string   `help:"Size of /dev/shm; without it, room for the snapshots of the model's state and for messages between processes." placeholder:"SIZE"`
	Claim     string   `help:"PersistentVolumeClaim for checkpoints." placeholder:"NAME"`
	Mount     string   `help:"Where pods see it." default:"/state" placeholder:"DIR"`
	Etcd      string   `help:"URLs of an etcd; without it one runs in the first pods." placeholder:"URL"`
	Args      []string `arg:"" passthrough:"" help:"A command of galley and its flags, after --." name:"command"`
}

// Help returns the text that galley kubernetes --help adds.
func (kubernetesCmd) Help() string {
	return `Prints a manifest for kubectl apply. Every pod is a host of an elastic job: there is neither ssh nor
mpirun. A pod that is told to end leaves in order within --grace seconds, and one that comes back, with
whatever address, joins. Probes ask the pod's agent. A PyTorchJob's pods take MASTER_ADDR, RANK and WORLD_SIZE
as the training operator sets them.

Examples:
  galley kubernetes --image registry/galley:1 --hosts 2:4 -n 8 --claim runs -- train --mesh dp=16 --checkpoint /state/run
  galley kubernetes --kind Job --image registry/galley:1 --hosts 4 -- train --mesh dp=4 --checkpoint /state/run
  galley kubernetes --kind PyTorchJob --image registry/galley:1 --hosts 4 -- train --mesh dp=4 --checkpoint /state/run`
}

// quantity matches a number of bytes in Kubernetes' notation.
var quantity = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?([KMGTPE]i?|k|m)?$`)

func (c *kubernetesCmd) Run() error {
	hosts, err := c.parse()
	if err == nil {
		err = natural(map[string]int{"gpus": c.GPUs})
	}
	for flag, value := range map[string]string{"memory": c.Memory, "shared": c.Shared} {
		if err == nil && value != "" && !quantity.MatchString(value) {
			err = fmt.Errorf("--%s=%s: want a number of bytes such as 64Gi", flag, value)
		}
	}
	if err == nil && c.Shared == "" {
		c.Shared, err = c.sharedSize(hosts)
	}
	if err != nil {
		return err
	}
	return toStdout(deploy.Kubernetes{Kind: c.Kind, Name: c.Name, Namespace: c.Namespace, Image: c.Image,
		Hosts:     hosts,
		Processes: c.Processes, Cores: c.Cores, Memory: c.Memory, GPUs: c.GPUs, Shared: c.Shared, Claim: c.Claim,
		Mount: c.Mount, Grace: c.Grace, Etcd: c.Etcd, Args: behindDashes(c.Args)}.Text())
}

// messageBytes is the shared memory of one process for messages to processes of its host.
const messageBytes = 256 << 20

// sharedSize returns the size of /dev/shm that a pod needs: its part of the state with the fewest pods, by
// the command's model and strategy. If the planner chooses the strategy, every pod may hold all of the state.
func (c *kubernetesCmd) sharedSize(hosts deploy.Hosts) (string, error) {
	train, given, all, err := c.trains()
	var run forecast.Run
	if err == nil {
		run, err = train.priced()
	}
	if err != nil {
		return "", fmt.Errorf("--shared: the size of /dev/shm follows from the command: %w: or give it, such as "+
			"--shared 64Gi", err)
	}
	if given == nil {
		given = &galley.Strategy{}
	}
	all = max(all, hosts.Least*c.Processes)
	shape := hostShape{hosts: hosts.Least, all: all, devices: (all + hosts.Least - 1) / hosts.Least}
	bytes := snapshotBytes(parameters(run.Model), shape, *given) + float64(c.Processes)*messageBytes
	return fmt.Sprintf("%dGi", int(math.Ceil(bytes/(1<<30)))), nil
}

// trains returns the command that pods run, its strategy (nil if the planner chooses it) and its devices.
func (c *kubernetesCmd) trains() (train *trainCmd, given *galley.Strategy, devices int, err error) {
	if train, err = parseTrain(behindDashes(c.Args)); err == nil {
		given, devices, err = train.asks()
	}
	return train, given, devices, err
}
