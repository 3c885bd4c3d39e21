// Images as text.
#include "tests/sim/image.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char text_format[] = ".version %d.%d\n.target %s\n.address_size 64\n// simulated, ";

size_t sim_image_bytes(const sim_image *image) {
  return sizeof *image + image->object_bytes + image->source_bytes;
}

int sim_arch_number(const char *arch) {
  return strncmp(arch, "gfx", 3) == 0 ? 0 : atoi(arch + strcspn(arch, "0123456789"));
}

char *sim_image_to_text(const sim_image *image, int version) {
  size_t bytes = sim_image_bytes(image);
  char *text = malloc(2 * bytes + 256), *at = text;
  if (!text) return NULL;
  at += sprintf(at, text_format, version / 10, version % 10, image->arch);
  at += sprintf(at, "%zu bytes\n", bytes);
  for (size_t i = 0; i < bytes; i++) {
    uint8_t byte = ((const uint8_t *)image)[i];
    *at++ = "0123456789abcdef"[byte >> 4];
    *at++ = "0123456789abcdef"[byte & 15];
  }
  *at = 0;
  return text;
}

bool sim_image_is_text(const void *image) {
  return memcmp(image, ".version", 8) == 0;
}

int sim_image_text_version(const char *text) {
  int major = 0, minor = 0;
  return sscanf(text, ".version %d.%d", &major, &minor) == 2 ? major * 10 + minor : 0;
}

sim_image *sim_image_from_text(const char *text) {
  const char *at = strstr(text, "// simulated, ");
  size_t bytes = 0;
  if (!at || sscanf(at, "// simulated, %zu", &bytes) != 1 || bytes < sizeof(sim_image) || !(at = strchr(at, '\n')) ||
      strlen(at + 1) != 2 * bytes)
    return NULL;
  uint8_t *image = malloc(bytes);
  for (size_t i = 0; image && i < bytes; i++) {
    unsigned byte = 0;
    sscanf(at + 1 + 2 * i, "%2x", &byte);
    image[i] = (uint8_t)byte;
  }
  return (sim_image *)image;
}
