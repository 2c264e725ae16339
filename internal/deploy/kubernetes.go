package deploy

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
)

// Kubernetes is a job of pods, each of which is a host of an elastic job: there is neither ssh nor mpirun.
type Kubernetes struct {
	// Kind is JobSet, Job, which is an indexed one with a service, or PyTorchJob.
	Kind            string
	Name, Namespace string
	Image           string
	Hosts           Hosts
	// Processes is how many run in a pod. Cores, Memory and GPUs are what a pod asks for; none leaves it out.
	Processes, Cores int
	Memory           string
	GPUs             int
	// Shared is the size of /dev/shm: two snapshots of a pod's state, and what its processes exchange.
	Shared string
	// Claim is a PersistentVolumeClaim for checkpoints, which pods see at Mount.
	Claim, Mount string
	// Grace is how many seconds a pod has to leave.
	Grace int
	// Etcd is URLs of an etcd that is there already; empty runs one in the first pods.
	Etcd string
	Args []string
}

// Kinds returns what manifests can be of.
func Kinds() []string { return []string{"JobSet", "Job", "PyTorchJob"} }

var dnsName = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,38}[a-z0-9])?$`)

// Text returns the manifest.
func (k Kubernetes) Text() (string, error) {
	if err := check(k.Args); err != nil {
		return "", err
	}
	for what, name := range map[string]string{"name": k.Name, "namespace": k.Namespace} {
		if !dnsName.MatchString(name) {
			return "", fmt.Errorf("%s is %q: want up to 40 small letters, digits and dashes", what, name)
		}
	}
	docs, err := k.documents()
	if err != nil {
		return "", err
	}
	var parts []string
	for _, d := range docs {
		text, err := yaml.MarshalWithOptions(d, yaml.Indent(2), yaml.IndentSequence(false))
		if err != nil {
			return "", err
		}
		parts = append(parts, string(text))
	}
	return strings.Join(parts, "---\n"), nil
}

func (k Kubernetes) documents() ([]yaml.MapSlice, error) {
	switch k.Kind {
	case "JobSet":
		return []yaml.MapSlice{k.jobSet()}, nil
	case "Job":
		return []yaml.MapSlice{k.service(), k.job()}, nil
	case "PyTorchJob":
		return []yaml.MapSlice{k.pyTorchJob()}, nil
	}
	return nil, fmt.Errorf("kind is %q: want one of %s", k.Kind, strings.Join(Kinds(), ", "))
}

// object returns the beginning of every manifest.
func (k Kubernetes) object(api, kind string, spec yaml.MapSlice) yaml.MapSlice {
	return yaml.MapSlice{{Key: "apiVersion", Value: api}, {Key: "kind", Value: kind},
		{Key: "metadata", Value: yaml.MapSlice{{Key: "name", Value: k.Name},
			{Key: "namespace", Value: k.Namespace}}},
		{Key: "spec", Value: spec}}
}

// jobSet returns one replicated job of indexed pods, with names of their own: NAME-hosts-0-INDEX.NAME.
func (k Kubernetes) jobSet() yaml.MapSlice {
	return k.object("jobset.x-k8s.io/v1alpha2", "JobSet", yaml.MapSlice{
		{Key: "network", Value: yaml.MapSlice{{Key: "enableDNSHostnames", Value: true}}},
		{Key: "failurePolicy", Value: yaml.MapSlice{{Key: "maxRestarts", Value: 10}}},
		{Key: "replicatedJobs", Value: []yaml.MapSlice{{{Key: "name", Value: "hosts"}, {Key: "replicas", Value: 1},
			{Key: "template", Value: yaml.MapSlice{{Key: "spec", Value: k.indexed("")}}}}}},
	})
}

// job returns an indexed job, whose pods the service names NAME-INDEX.NAME.
func (k Kubernetes) job() yaml.MapSlice { return k.object("batch/v1", "Job", k.indexed(k.Name)) }

func (k Kubernetes) service() yaml.MapSlice {
	return k.object("v1", "Service", yaml.MapSlice{{Key: "clusterIP", Value: "None"},
		{Key: "publishNotReadyAddresses", Value: true},
		{Key: "selector", Value: yaml.MapSlice{{Key: "batch.kubernetes.io/job-name", Value: k.Name}}}})
}

// indexed returns a job whose pods have numbers. One that fails comes back under its name, as a host that
// joins.
func (k Kubernetes) indexed(subdomain string) yaml.MapSlice {
	return yaml.MapSlice{{Key: "completionMode", Value: "Indexed"}, {Key: "completions", Value: k.Hosts.Most},
		{Key: "parallelism", Value: k.Hosts.Most}, {Key: "backoffLimitPerIndex", Value: 20},
		{Key: "podReplacementPolicy", Value: "Failed"},
		{Key: "template", Value: yaml.MapSlice{{Key: "spec", Value: k.pod(subdomain, k.launch())}}}}
}

// launch returns the agent's command line in a pod of an indexed job.
func (k Kubernetes) launch() []string {
	return k.agent(k.Hosts.String(), k.etcd())
}

// agent returns the command line of a host. Its name is that of the pod's machine, which stays the same when
// the pod comes back.
func (k Kubernetes) agent(hosts, etcd string) []string {
	return append([]string{"galley", "launch", "--elastic", hosts, "-n", strconv.Itoa(k.Processes),
		"--job", k.Name, "--address", "$(POD_IP)", "--etcd", etcd, "--"}, k.Args...)
}

// etcd returns where hosts agree: by URL, or beside the agents of the first pods.
func (k Kubernetes) etcd() string {
	if k.Etcd != "" {
		return k.Etcd
	}
	var voters []string
	for i := range k.Hosts.voters() {
		pod := fmt.Sprintf("%s-%d", k.Name, i)
		if k.Kind == "JobSet" {
			pod = fmt.Sprintf("%s-hosts-0-%d", k.Name, i)
		}
		voters = append(voters, fmt.Sprintf("%s@%[1]s.%s", pod, k.Name))
	}
	return "embedded=" + strings.Join(voters, ",")
}

// pyTorchJob has the training operator start the pods, and takes what that tells them: MASTER_ADDR, RANK and
// WORLD_SIZE.
func (k Kubernetes) pyTorchJob() yaml.MapSlice {
	etcd := k.Etcd
	if etcd == "" {
		etcd = "embedded=$MASTER_ADDR"
	}
	words := k.agent(fmt.Sprintf("%d:$WORLD_SIZE", k.Hosts.Least), etcd)
	for i, w := range words {
		words[i] = w
		if strings.Contains(w, "$") {
			words[i] = `"` + strings.ReplaceAll(strings.ReplaceAll(w, "$(", "${"), ")", "}") + `"`
		} else {
			words[i] = quoted([]string{w})
		}
	}
	replica := func(n int) yaml.MapSlice {
		shell := []string{"sh", "-c", "exec " + strings.Join(words, " ")}
		return yaml.MapSlice{{Key: "replicas", Value: n}, {Key: "restartPolicy", Value: "OnFailure"},
			{Key: "template", Value: yaml.MapSlice{{Key: "spec", Value: k.containers(shell, "pytorch")}}}}
	}
	specs := yaml.MapSlice{{Key: "Master", Value: replica(1)}}
	if n := k.Hosts.Most - 1; n > 0 {
		specs = append(specs, yaml.MapItem{Key: "Worker", Value: replica(n)})
	}
	return k.object("kubeflow.org/v1", "PyTorchJob", yaml.MapSlice{{Key: "pytorchReplicaSpecs", Value: specs}})
}
