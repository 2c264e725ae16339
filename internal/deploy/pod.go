package deploy

import "github.com/goccy/go-yaml"

// pod returns the pod of an indexed job: what has failed is another pod's turn, under the same name.
func (k Kubernetes) pod(subdomain string, command []string) yaml.MapSlice {
	spec := yaml.MapSlice{{Key: "restartPolicy", Value: "Never"}}
	if subdomain != "" {
		spec = append(spec, yaml.MapItem{Key: "subdomain", Value: subdomain})
	}
	return append(spec, k.containers(command, "galley")...)
}

// containers returns a pod's container and what it sees. Kubernetes sends SIGTERM to the agent, which leaves
// in order within the grace period.
func (k Kubernetes) containers(command []string, name string) yaml.MapSlice {
	probe := yaml.MapSlice{{Key: "exec",
		Value: yaml.MapSlice{{Key: "command", Value: []string{"galley", "status"}}}},
		{Key: "periodSeconds", Value: 10}, {Key: "timeoutSeconds", Value: 10}, {Key: "failureThreshold", Value: 6}}
	container := yaml.MapSlice{{Key: "name", Value: name}, {Key: "image", Value: k.Image},
		{Key: "command", Value: command}, {Key: "env", Value: podEnvironment()},
		{Key: "startupProbe", Value: probe}, {Key: "livenessProbe", Value: probe}}
	if r := k.resources(); len(r) > 0 {
		container = append(container, yaml.MapItem{Key: "resources",
			Value: yaml.MapSlice{{Key: "requests", Value: r}, {Key: "limits", Value: r}}})
	}
	mounts, volumes := k.volumes()
	container = append(container, yaml.MapItem{Key: "volumeMounts", Value: mounts})
	return yaml.MapSlice{{Key: "terminationGracePeriodSeconds", Value: k.Grace},
		{Key: "containers", Value: []yaml.MapSlice{container}}, {Key: "volumes", Value: volumes}}
}

// podEnvironment tells a pod its address, which is another after a restart.
func podEnvironment() []yaml.MapSlice {
	return []yaml.MapSlice{{{Key: "name", Value: "POD_IP"}, {Key: "valueFrom", Value: yaml.MapSlice{
		{Key: "fieldRef", Value: yaml.MapSlice{{Key: "fieldPath", Value: "status.podIP"}}}}}}}
}

// resources returns what a pod asks for.
func (k Kubernetes) resources() (r yaml.MapSlice) {
	if k.Cores > 0 {
		r = append(r, yaml.MapItem{Key: "cpu", Value: k.Cores * k.Processes})
	}
	if k.Memory != "" {
		r = append(r, yaml.MapItem{Key: "memory", Value: k.Memory})
	}
	if k.GPUs > 0 {
		r = append(r, yaml.MapItem{Key: "nvidia.com/gpu", Value: k.GPUs})
	}
	return r
}

// volumes returns memory that a pod's processes share, and the checkpoints.
func (k Kubernetes) volumes() (mounts, volumes []yaml.MapSlice) {
	memory := yaml.MapSlice{{Key: "medium", Value: "Memory"}, {Key: "sizeLimit", Value: k.Shared}}
	mounts = append(mounts, yaml.MapSlice{{Key: "name", Value: "shm"}, {Key: "mountPath", Value: "/dev/shm"}})
	volumes = append(volumes, yaml.MapSlice{{Key: "name", Value: "shm"}, {Key: "emptyDir", Value: memory}})
	if k.Claim != "" {
		mounts = append(mounts, yaml.MapSlice{{Key: "name", Value: "state"}, {Key: "mountPath", Value: k.Mount}})
		volumes = append(volumes, yaml.MapSlice{{Key: "name", Value: "state"},
			{Key: "persistentVolumeClaim", Value: yaml.MapSlice{{Key: "claimName", Value: k.Claim}}}})
	}
	return mounts, volumes
}
