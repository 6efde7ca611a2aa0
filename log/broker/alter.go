package broker

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/trunkline/trunkline/log"
)

// brokerConfig tells the few settings of a broker that clients look for. None can be changed from outside.
func (s *Server) brokerConfig() []entry {
	yes := strconv.FormatBool(!s.o.NoAutoCreate)
	list := []entry{
		{name: "auto.create.topics.enable", value: yes, kind: kindBool},
		{name: "broker.id", value: strconv.Itoa(nodeID), kind: kindInt},
		{name: "default.replication.factor", value: "1", kind: kindInt},
		{name: "log.dirs", value: s.journal.Dir(), kind: kindString},
		{name: "min.insync.replicas", value: "1", kind: kindInt},
		{name: "offsets.topic.replication.factor", value: "1", kind: kindInt},
		{name: "transaction.state.log.replication.factor", value: "1", kind: kindInt},
		{name: "transaction.max.timeout.ms", value: strconv.FormatInt(maxTransactionTimeout.Milliseconds(), 10), kind: kindInt},
	}
	for i := range list {
		list[i].source, list[i].readOnly = fromBroker, true
	}
	return list
}

// alterConfigs sets the settings of topics; what is not named takes its default.
func (s *Server) alterConfigs(r *request) answer {
	req := r.message.(*kmsg.AlterConfigsRequest)
	resp := req.ResponseKind().(*kmsg.AlterConfigsResponse)
	resp.Resources = []kmsg.AlterConfigsResponseResource{}
	for i := range req.Resources {
		q := &req.Resources[i]
		err := s.alter(r, int8(q.ResourceType), q.ResourceName, req.ValidateOnly, func(c *log.TopicConfig) error {
			*c = log.TopicConfig{}
			for _, e := range q.Configs {
				if err := setTopicConfig(c, e.Name, e.Value); err != nil {
					return err
				}
			}
			return nil
		})
		out := kmsg.NewAlterConfigsResponseResource()
		out.ResourceType, out.ResourceName = q.ResourceType, q.ResourceName
		out.ErrorCode, out.ErrorMessage = codeOf(err), text(err)
		resp.Resources = append(resp.Resources, out)
	}
	return now(resp)
}

// incrementalAlterConfigs changes single settings of topics.
func (s *Server) incrementalAlterConfigs(r *request) answer {
	req := r.message.(*kmsg.IncrementalAlterConfigsRequest)
	resp := req.ResponseKind().(*kmsg.IncrementalAlterConfigsResponse)
	resp.Resources = []kmsg.IncrementalAlterConfigsResponseResource{}
	for i := range req.Resources {
		q := &req.Resources[i]
		err := s.alter(r, int8(q.ResourceType), q.ResourceName, req.ValidateOnly, func(c *log.TopicConfig) error {
			for _, e := range q.Configs {
				if err := changeSetting(c, e.Name, int8(e.Op), e.Value); err != nil {
					return err
				}
			}
			return nil
		})
		out := kmsg.NewIncrementalAlterConfigsResponseResource()
		out.ResourceType, out.ResourceName = q.ResourceType, q.ResourceName
		out.ErrorCode, out.ErrorMessage = codeOf(err), text(err)
		resp.Resources = append(resp.Resources, out)
	}
	return now(resp)
}

// Kafka's numbers of ways to change a setting.
const (
	opSet      = 0
	opDelete   = 1
	opAppend   = 2
	opSubtract = 3
)

// changeSetting changes one setting. Only a list can be added to and taken from, and the policy is the only list.
func changeSetting(c *log.TopicConfig, name string, op int8, value *string) error {
	switch op {
	case opSet:
		if value == nil {
			return invalidConfig("%s has no value", name)
		}
		return setTopicConfig(c, name, value)
	case opDelete:
		return setTopicConfig(c, name, nil)
	case opAppend, opSubtract:
	default:
		return fmt.Errorf("%w: operation %d", kerr.InvalidRequest, op)
	}
	if name != cleanupPolicy || value == nil {
		return invalidConfig("%s is no list", name)
	}
	policies := strings.Split(policyOf(*c), ",")
	for _, p := range strings.Split(*value, ",") {
		policies = slices.DeleteFunc(policies, func(have string) bool { return have == p })
		if op == opAppend {
			policies = append(policies, p)
		}
	}
	if len(policies) == 0 {
		return invalidConfig("%s would be empty", cleanupPolicy)
	}
	joined := strings.Join(policies, ",")
	return setTopicConfig(c, cleanupPolicy, &joined)
}

// alter changes one topic.
func (s *Server) alter(r *request, kind int8, name string, validateOnly bool, change func(*log.TopicConfig) error) error {
	if kind != topicResource {
		return fmt.Errorf("%w: only settings of topics can be changed; the broker's stand in the configuration file", kerr.InvalidRequest)
	}
	switch {
	case !r.c.session.may(s, writer):
		return fmt.Errorf("%w: the user may only read", kerr.TopicAuthorizationFailed)
	case log.IsInternal(name):
		return fmt.Errorf("%w: %s is Trunkline's own", kerr.TopicAuthorizationFailed, name)
	}
	if validateOnly {
		t, err := s.journal.Name(name)
		if err != nil {
			return err
		}
		return change(&t.Config)
	}
	return s.journal.AlterTopic(name, change)
}
