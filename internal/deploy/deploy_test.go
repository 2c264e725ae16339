package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/galley-ml/galley/internal/deploy"
	"github.com/goccy/go-yaml"
)

var command = []string{"train", "--mesh", "dp=4", "--checkpoint", "/state/it's a run"}

// TestSlurm: the file is a shell's, has what Slurm reads, and runs the command as it was written.
func TestSlurm(t *testing.T) {
	for name, test := range map[string]struct {
		job  deploy.Slurm
		want []string
	}{
		"plain": {deploy.Slurm{Hosts: deploy.Hosts{Least: 4, Most: 4}, Cores: 2, Time: "1:00:00"},
			[]string{"#SBATCH --nodes=4\n", "#SBATCH --ntasks-per-node=8\n", "#SBATCH --cpus-per-task=2\n",
				"--time=1:00:00\n",
				"#SBATCH --signal=TERM@60\n", "#SBATCH --requeue\n",
				"srun --mpi=pmi2 --kill-on-bad-exit=1 galley train"}},
		"elastic": {deploy.Slurm{Hosts: deploy.Hosts{Least: 3, Most: 8}, Cores: 2},
			[]string{"#SBATCH --nodes=3-8\n", "#SBATCH --ntasks-per-node=1\n", "#SBATCH --cpus-per-task=16\n",
				"head -n 3",
				`--etcd "embedded=$voters"`, "launch --elastic 3:8 -n 8"}},
	} {
		test.job.Name, test.job.Processes, test.job.MPI, test.job.Grace = "big", 8, "pmi2", 60
		test.job.Galley, test.job.Args = "galley", command
		text, err := test.job.Text()
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range append(test.want, `'/state/it'\''s a run'`) {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q in\n%s", name, want, text)
			}
		}
		path := filepath.Join(t.TempDir(), "job.sh")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("bash", "-n", path).CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", name, err, out)
		}
	}
}

// TestSlurmOptions: the Slurm of this machine reads the file's options and those of its srun, up to where it
// would ask its controller.
func TestSlurmOptions(t *testing.T) {
	job := deploy.Slurm{Name: "big", Hosts: deploy.Hosts{Least: 4, Most: 4}, Processes: 8, Cores: 2,
		Time: "1:00:00", Partition: "gpu", Account: "us", MPI: "pmi2", Grace: 60, Galley: "galley", Args: command}
	elastic := job
	elastic.Hosts.Least = 2
	known := optionName.FindAllString(slurm(t, "srun", "--help"), -1)
	for _, job := range []deploy.Slurm{job, elastic} {
		text, err := job.Text()
		if err != nil {
			t.Fatal(err)
		}
		if out := submitted(t, text); !strings.Contains(out, "contact slurm controller") {
			t.Errorf("sbatch: %s\n%s", out, text)
		}
		wrong := strings.Replace(text, "--requeue", "--requeues", 1)
		if out := submitted(t, wrong); !strings.Contains(out, "unrecognized option") {
			t.Errorf("sbatch took another option: %s", out)
		}
		_, line, _ := strings.Cut(strings.ReplaceAll(text, "\\\n", ""), "\nsrun ")
		line, _, _ = strings.Cut(line, "galley ")
		for _, o := range optionName.FindAllString(line, -1) {
			if !slices.Contains(known, o) {
				t.Errorf("srun: no option %s: %s", o, line)
			}
		}
	}
}

var optionName = regexp.MustCompile(`--[a-z-]+`)

// submitted returns what sbatch says to a file.
func submitted(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "job.sh")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return slurm(t, "sbatch", "--test-only", path)
}

// slurm returns what a tool of Slurm's prints where no controller answers.
func slurm(t *testing.T, tool string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath(tool); err != nil {
		t.Skipf("no %s: install slurm-wlm", tool)
	}
	conf := filepath.Join(t.TempDir(), "slurm.conf")
	text := "ClusterName=none\nSlurmctldHost=localhost\nSlurmctldPort=1\nAuthType=auth/none\nMessageTimeout=1\n"
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(tool, args...)
	c.Env = append(os.Environ(), "SLURM_CONF="+conf)
	out, _ := c.CombinedOutput()
	if len(out) == 0 || strings.Contains(string(out), "fatal:") {
		t.Skipf("%s does not run without a cluster: %s", tool, out)
	}
	return string(out)
}

// TestCommands: what cannot continue after it was ended is refused, and what is no command.
func TestCommands(t *testing.T) {
	for line, want := range map[string]string{"": "want a command", "train --mesh dp=2": "--checkpoint",
		"launch -n 2 -- train": "want the command that processes run"} {
		_, err := deploy.Slurm{Hosts: deploy.Hosts{Least: 1, Most: 1}, Args: strings.Fields(line)}.Text()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", line, err, want)
		}
	}
	k := deploy.Kubernetes{Kind: "Job", Name: "Upper", Namespace: "default", Args: command}
	if _, err := k.Text(); err == nil || !strings.Contains(err.Error(), "name is") {
		t.Errorf("got %v", err)
	}
}

// The fields that manifests may have, as the APIs of batch/v1, jobset.x-k8s.io/v1alpha2, kubeflow.org/v1 and
// v1 have them: a manifest with another, or with one of another type, does not parse.
type (
	object[T any] struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string `yaml:"kind"`
		Metadata   struct {
			Name      string `yaml:"name"`
			Namespace string `yaml:"namespace"`
		} `yaml:"metadata"`
		Spec T `yaml:"spec"`
	}
	jobSpec struct {
		CompletionMode       string            `yaml:"completionMode"`
		Completions          int32             `yaml:"completions"`
		Parallelism          int32             `yaml:"parallelism"`
		BackoffLimitPerIndex int32             `yaml:"backoffLimitPerIndex"`
		PodReplacementPolicy string            `yaml:"podReplacementPolicy"`
		Template             template[podSpec] `yaml:"template"`
	}
	template[T any] struct {
		Spec T `yaml:"spec"`
	}
	podSpec struct {
		RestartPolicy                 string      `yaml:"restartPolicy"`
		Subdomain                     string      `yaml:"subdomain"`
		TerminationGracePeriodSeconds int64       `yaml:"terminationGracePeriodSeconds"`
		Containers                    []container `yaml:"containers"`
		Volumes                       []struct {
			Name     string `yaml:"name"`
			EmptyDir *struct {
				Medium    string `yaml:"medium"`
				SizeLimit string `yaml:"sizeLimit"`
			} `yaml:"emptyDir"`
			PersistentVolumeClaim *struct {
				ClaimName string `yaml:"claimName"`
			} `yaml:"persistentVolumeClaim"`
		} `yaml:"volumes"`
	}
	container struct {
		Name    string   `yaml:"name"`
		Image   string   `yaml:"image"`
		Command []string `yaml:"command"`
		Env     []struct {
			Name      string `yaml:"name"`
			ValueFrom struct {
				FieldRef struct {
					FieldPath string `yaml:"fieldPath"`
				} `yaml:"fieldRef"`
			} `yaml:"valueFrom"`
		} `yaml:"env"`
		StartupProbe  probe `yaml:"startupProbe"`
		LivenessProbe probe `yaml:"livenessProbe"`
		Resources     struct {
			Requests map[string]any `yaml:"requests"`
			Limits   map[string]any `yaml:"limits"`
		} `yaml:"resources"`
		VolumeMounts []struct {
			Name      string `yaml:"name"`
			MountPath string `yaml:"mountPath"`
		} `yaml:"volumeMounts"`
	}
	probe struct {
		Exec struct {
			Command []string `yaml:"command"`
		} `yaml:"exec"`
		PeriodSeconds    int32 `yaml:"periodSeconds"`
		TimeoutSeconds   int32 `yaml:"timeoutSeconds"`
		FailureThreshold int32 `yaml:"failureThreshold"`
	}
	jobSetSpec struct {
		Network struct {
			EnableDNSHostnames bool `yaml:"enableDNSHostnames"`
		} `yaml:"network"`
		FailurePolicy struct {
			MaxRestarts int32 `yaml:"maxRestarts"`
		} `yaml:"failurePolicy"`
		ReplicatedJobs []struct {
			Name     string            `yaml:"name"`
			Replicas int32             `yaml:"replicas"`
			Template template[jobSpec] `yaml:"template"`
		} `yaml:"replicatedJobs"`
	}
	serviceSpec struct {
		ClusterIP                string            `yaml:"clusterIP"`
		PublishNotReadyAddresses bool              `yaml:"publishNotReadyAddresses"`
		Selector                 map[string]string `yaml:"selector"`
	}
	pyTorchSpec struct {
		PyTorchReplicaSpecs map[string]struct {
			Replicas      int32             `yaml:"replicas"`
			RestartPolicy string            `yaml:"restartPolicy"`
			Template      template[podSpec] `yaml:"template"`
		} `yaml:"pytorchReplicaSpecs"`
	}
)

func parsed[T any](t *testing.T, text, api, kind string) T {
	t.Helper()
	var o object[T]
	if err := yaml.UnmarshalWithOptions([]byte(text), &o, yaml.Strict()); err != nil {
		t.Fatalf("%s: %v\n%s", kind, err, text)
	}
	if o.APIVersion != api || o.Kind != kind || o.Metadata.Name != "llama" {
		t.Errorf("got %s %s %q, want %s %s", o.APIVersion, o.Kind, o.Metadata.Name, api, kind)
	}
	return o.Spec
}

func manifest(t *testing.T, kind string) []string {
	t.Helper()
	text, err := deploy.Kubernetes{
		Kind:      kind,
		Name:      "llama",
		Namespace: "default",
		Image:     "galley:1",
		Processes: 8,
		Hosts:     deploy.Hosts{Least: 3, Most: 4},
		Cores:     2,
		Memory:    "64Gi",
		GPUs:      8,
		Shared:    "16Gi",
		Claim:     "runs",
		Mount:     "/state",
		Grace:     60,
		Args:      command,
	}.Text()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(text, "---\n")
}

// TestManifests: what is written parses as the APIs have it, and says what was asked for.
func TestManifests(t *testing.T) {
	set := parsed[jobSetSpec](t, manifest(t, "JobSet")[0], "jobset.x-k8s.io/v1alpha2", "JobSet")
	checkJob(t, set.ReplicatedJobs[0].Template.Spec, "llama-hosts-0-2@llama-hosts-0-2.llama")
	docs := manifest(t, "Job")
	if s := parsed[serviceSpec](t, docs[0], "v1", "Service"); s.ClusterIP != "None" {
		t.Errorf("got a service %+v", s)
	}
	job := parsed[jobSpec](t, docs[1], "batch/v1", "Job")
	checkJob(t, job, "llama-2@llama-2.llama")
	if job.Template.Spec.Subdomain != "llama" {
		t.Errorf("got subdomain %q", job.Template.Spec.Subdomain)
	}
	torch := parsed[pyTorchSpec](t, manifest(t, "PyTorchJob")[0], "kubeflow.org/v1", "PyTorchJob")
	worker := torch.PyTorchReplicaSpecs["Worker"]
	line := worker.Template.Spec.Containers[0].Command[2]
	if worker.Replicas != 3 || !strings.Contains(line, `"embedded=$MASTER_ADDR"`) ||
		!strings.Contains(line, `"3:$WORLD_SIZE"`) || !strings.Contains(line, `'/state/it'\''s a run'`) {
		t.Errorf("got %d workers that run %s", worker.Replicas, line)
	}
	if out, err := exec.Command("sh", "-n", "-c", line).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func checkJob(t *testing.T, j jobSpec, voter string) {
	t.Helper()
	pod := j.Template.Spec
	c := pod.Containers[0]
	line := strings.Join(c.Command, " ")
	for _, want := range []string{"galley launch --elastic 3:4 -n 8", voter, "--address $(POD_IP)",
		"it's a run"} {
		if !strings.Contains(line, want) {
			t.Errorf("no %q in %s", want, line)
		}
	}
	if j.CompletionMode != "Indexed" || j.Completions != 4 || j.Parallelism != 4 ||
		pod.RestartPolicy != "Never" ||
		pod.TerminationGracePeriodSeconds != 60 || pod.Volumes[0].EmptyDir.SizeLimit != "16Gi" ||
		pod.Volumes[1].PersistentVolumeClaim.ClaimName != "runs" ||
		c.Resources.Limits["cpu"] != uint64(16) {
		t.Errorf("got %+v", j)
	}
}
