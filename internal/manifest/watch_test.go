package manifest

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

func everything() metav1.ListOptions { return metav1.ListOptions{} }
