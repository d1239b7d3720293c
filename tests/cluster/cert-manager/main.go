// cert-manager runs the real cert-manager in one process: certificates by CA and self-signed issuers, and the CA injector. Its own
// commands are modules of their own that the module proxy does not serve; the libraries that they are made of are public.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	certmanager "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/cert-manager/cert-manager/pkg/controller"
	"github.com/cert-manager/cert-manager/pkg/controller/cainjector"
	logf "github.com/cert-manager/cert-manager/pkg/logs"

	// Each of them registers itself with the package controller.
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/ca"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/selfsigned"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	_ "github.com/cert-manager/cert-manager/pkg/controller/clusterissuers"
	_ "github.com/cert-manager/cert-manager/pkg/controller/issuers"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/ca"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/selfsigned"
)

func main() {
	// controller-runtime has a flag of the same name among everybody's.
	flags := flag.NewFlagSet("cert-manager", flag.ExitOnError)
	kubeconfig := flags.String("kubeconfig", "", "kubeconfig file")
	issuing := flags.Bool("issuing", true, "issue certificates")
	injecting := flags.Bool("injecting", true, "inject CAs")
	_ = flags.Parse(os.Args[1:])

	logger := klog.Background()
	ctrl.SetLogger(logger)
	ctx, stop := signal.NotifyContext(logf.NewContext(context.Background(), logger), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, logger, *kubeconfig, *issuing, *injecting); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, logger logr.Logger, kubeconfig string, issuing, injecting bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	running := []func(context.Context) error{}
	if issuing {
		issue, err := issuers(ctx, kubeconfig)
		if err != nil {
			return fmt.Errorf("failed to set up the issuers: %w", err)
		}
		running = append(running, issue...)
	}
	if injecting {
		manager, err := injector(ctx, kubeconfig)
		if err != nil {
			return fmt.Errorf("failed to set up the injector: %w", err)
		}
		running = append(running, manager.Start)
	}
	var all sync.WaitGroup
	failures := make(chan error, len(running))
	for _, part := range running {
		all.Go(func() {
			// One that ends takes the others with it.
			defer cancel()
			if err := part(ctx); err != nil {
				failures <- err
			}
		})
	}
	logger.Info("cert-manager runs")
	all.Wait()
	close(failures)
	return <-failures
}

// issuers are the controllers from Certificate to Secret, with their informers started.
func issuers(ctx context.Context, kubeconfig string) ([]func(context.Context) error, error) {
	factory, err := controller.NewContextFactory(ctx, controller.ContextOptions{
		Kubeconfig:    kubeconfig,
		IssuerOptions: controller.IssuerOptions{ClusterResourceNamespace: "cert-manager"},
		CertificateOptions: controller.CertificateOptions{
			CertificateRequestMinimumBackoffDuration: time.Second,
			CertificateRequestMaximumBackoffDuration: time.Minute,
		},
	})
	if err != nil {
		return nil, err
	}
	running := []func(context.Context) error{}
	for name, construct := range controller.Known() {
		one, err := construct(factory)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		running = append(running, func(ctx context.Context) error { return one.Run(1, ctx) })
	}
	shared, err := factory.Build()
	if err != nil {
		return nil, err
	}
	shared.SharedInformerFactory.Start(ctx.Done())
	shared.KubeSharedInformerFactory.Start(ctx.Done())
	shared.HTTP01ResourceMetadataInformersFactory.Start(ctx.Done())
	return running, nil
}

// injector is the manager that writes caBundles.
func injector(ctx context.Context, kubeconfig string) (ctrl.Manager, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	// It writes under the name before the slash.
	config.UserAgent = "cert-manager-cainjector/test"
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, certmanager.AddToScheme, apiextensions.AddToScheme, apiregistration.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:  scheme,
		Metrics: server.Options{BindAddress: "0"},
		Client:  client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}},
	})
	if err != nil {
		return nil, err
	}
	return manager, cainjector.RegisterAllInjectors(ctx, manager, cainjector.SetupOptions{
		EnableCertificatesDataSource: true,
		EnabledReconcilersFor: map[string]bool{
			cainjector.MutatingWebhookConfigurationName:   true,
			cainjector.ValidatingWebhookConfigurationName: true,
		},
	})
}
