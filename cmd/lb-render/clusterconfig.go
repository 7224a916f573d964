package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/lb-render/lb-render/internal/manifest"
	"github.com/lb-render/lb-render/internal/types"
)

// dot is a ClusterConfig as a template sees it: the same names.
type dot struct {
	Node      *types.Node
	VIPs      []*types.VIP
	Listeners []*types.Listener
	Nodes     []*types.Node
	Problems  []types.Problem
	Params    map[string]any

	VIPPool    []string
	MTUConfig  map[string]string
	MTUConfig6 map[string]string
	NodeLabels map[string]string
	IPV6       map[string]string
	Config     map[string]types.PortMap
	Config6    map[string]types.PortMap
}

func (p *program) clusterConfigCommand() *cobra.Command {
	var once onceFlags
	format := "yaml"
	cmd := &cobra.Command{
		Use:     "clusterconfig",
		Aliases: []string{"cc"},
		Short:   "print what the templates get",
		Long:    `Prints the ClusterConfig of this host, with the names that templates use.`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if format != "yaml" && format != "json" {
				return fmt.Errorf("--output %q: must be yaml or json", format)
			}
			o, err := p.once(cmd.Context(), &once)
			if err != nil {
				return err
			}
			defer o.close()
			c := o.config
			d := dot{c.Node, c.VIPs, c.Listeners, c.Nodes, c.Problems, o.loaded.settings.Params,
				c.VIPPool, c.MTUConfig, c.MTUConfig6, c.NodeLabels, c.IPV6, c.Config, c.Config6}
			b, err := json.MarshalIndent(d, "", "  ")
			if err == nil && format == "yaml" {
				b, err = yaml.JSONToYAML(b)
			} else {
				b = append(b, '\n')
			}
			if err != nil {
				return err
			}
			_, err = p.stdout.Write(b)
			return err
		},
	}
	cmd.Flags().StringVarP(&format, "output", "o", format, "yaml or json")
	once.add(cmd)
	return cmd
}

func (p *program) snapshotCommand() *cobra.Command {
	var once onceFlags
	cmd := &cobra.Command{
		Use:   "snapshot",
		Short: "print the watched objects as manifests",
		Long: `Prints all objects that the agent watches, without what it does not use, as
manifests: with --manifests another lb-render reads them elsewhere.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			// The document may be what is wrong: a snapshot needs none that is valid.
			o, err := p.open(cmd.Context(), &once, true)
			if err != nil {
				return err
			}
			defer o.close()
			if err := o.sync(p); err != nil {
				return err
			}
			return manifest.Write(p.stdout, o.watcher.Objects())
		},
	}
	once.addTimeout(cmd)
	return cmd
}
