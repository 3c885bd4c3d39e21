// What resnet18 and resnet50 do with their command lines. See resnet_program.h.
#include "examples/models/resnet_program.h"

#include "examples/models/cli.h"

typedef struct work {
  tc_nn_params *model;
  tc_tensor x, labels;
} work;

// A file with fewer blocks, such as a part of one, would be another network, and one of the other
// kind is another model.
static void check_blocks(const cli *c, const resnet_config *have, const resnet_config *want) {
  if (have->bottleneck != want->bottleneck)
    cli_fail("%s: its blocks have %d convolutions, not %d", c->weights, 2 + have->bottleneck, 2 + want->bottleneck);
  for (int s = 0; s < RESNET_STAGES; s++)
    if (have->n_blocks[s] != want->n_blocks[s])
      cli_fail("%s: layer%d has %lld blocks, not %lld", c->weights, s + 1, (long long)have->n_blocks[s],
               (long long)want->n_blocks[s]);
}

// Everything in one scope, so that initial values are not made where a file gives others.
static tc_nn_params *model_of(const cli *c, const resnet_config *start) {
  tc_scope scope = tc_scope_begin();
  tc_nn_params *p = tc_nn_params_create();
  tc_archive *a = cli_weights(c);
  resnet_config config = *start;
  if (a && !resnet_config_of(a, &config)) cli_fail("%s: not the weights of a ResNet", c->weights);
  check_blocks(c, &config, start);
  cli_check(resnet_add(p, &config));
  cli_check(tc_nn_cast(p, c->dtype));
  if (a) cli_check(tc_nn_load(p, a, NULL)), cli_remark_unused(c, a, p, "");
  tc_archive_close(a);
  tc_scope_end(scope);
  return p;
}

static tc_tensor logits(void *arg, int64_t first, int64_t n) {
  const work *w = arg;
  return resnet_forward(w->model, tc_slice(w->x, 0, first, first + n, 1));
}

static tc_tensor loss(void *arg, int64_t first, int64_t n) {
  const work *w = arg;
  return tc_cross_entropy(logits(arg, first, n), tc_slice(w->labels, 0, first, first + n, 1));
}

static void train(const cli *c, work *w) {
  int64_t n = tc_shape(w->x).dim[0];
  if (c->labels == NULL) cli_fail("--train asks for --labels");
  w->labels = cli_load("labels", c->labels, 1, false, TC_I64);
  if (tc_numel(w->labels) != n)
    cli_fail("--labels %s has %lld classes for %lld images", c->labels, (long long)tc_numel(w->labels), (long long)n);
  tc_sgd_options options = {.lr = c->lr >= 0 ? c->lr : 0.01, .momentum = c->momentum >= 0 ? c->momentum : 0.9};
  tc_optimizer *opt = tc_sgd(tc_nn_tensors(w->model), tc_nn_count(w->model), options);
  cli_train(c, n, opt, loss, w);
  tc_optimizer_destroy(opt);
}

int resnet_program(int argc, char **argv, const char *about, resnet_config start) {
  cli c = cli_parse(argc, argv, about,
                    "weights input output train labels lr momentum save batch dtype amp device threads seed ");
  if (c.input == NULL) cli_fail("--input is missing; %s --help tells what there is", argv[0]);
  if (!c.output && !c.train) cli_fail("nothing to do: give --output or --train");
  tc_scope scope = tc_scope_begin();
  work w = {.x = cli_load("input", c.input, 4, true, c.dtype), .model = model_of(&c, &start)};
  if (c.train) train(&c, &w);
  tc_nn_set_training(w.model, false);
  if (c.output) cli_save(c.output, cli_in_batches(&c, tc_shape(w.x).dim[0], logits, &w));
  if (c.save) cli_check(tc_nn_save(w.model, c.save));
  tc_nn_params_destroy(w.model);
  tc_scope_end(scope);
  cli_flush();
  return 0;
}
