/* spank_fakepyxis: stands in for pyxis on a test cluster without containers: the command runs on the host.
 *
 * It accepts the --container-* options of pyxis 0.24 and puts each value given into the task's environment as
 * FAKEPYXIS_<OPTION> (dashes as underscores), "1" for a flag, so that a test can see what arrived. What pyxis would
 * refuse is refused: a --container-mounts entry without a source or an absolute destination, or whose source is not on
 * the node; a --container-image that is a path to no file. --container-workdir is entered if it exists.
 *
 * Arguments in plugstack.conf:
 *   nocheck  accept mounts and images without looking at the file system
 *   segment  also accept, and ignore, --segment where Slurm does not have it (before 23.11) */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <ctype.h>
#include <slurm/slurm.h>
#include <slurm/spank.h>

SPANK_PLUGIN(fakepyxis, 1)

static const struct { const char *name, *arg, *help; } defs[] = {
	{ "container-image", "[USER@][REGISTRY#]IMAGE[:TAG]|PATH", "container image" },
	{ "container-mounts", "SRC:DST[:FLAGS][,SRC:DST...]", "bind mounts" },
	{ "container-workdir", "PATH", "working directory inside the container" },
	{ "container-name", "NAME", "name of the container" },
	{ "container-save", "PATH", "save the container to a squashfs file" },
	{ "container-env", "NAME[,NAME...]", "variables whose value on the host wins over the image's" },
	{ "container-unshare", "NS[,NS...]", "new namespaces for the container: net, ipc, uts" },
	{ "container-mount-home", NULL, "bind mount the home" },
	{ "no-container-mount-home", NULL, "do not bind mount the home" },
	{ "container-remap-root", NULL, "ask to be remapped to root" },
	{ "no-container-remap-root", NULL, "do not remap to root" },
	{ "container-entrypoint", NULL, "run the image's entrypoint" },
	{ "no-container-entrypoint", NULL, "do not run the image's entrypoint" },
	{ "container-entrypoint-log", NULL, "print the entrypoint's output" },
	{ "container-writable", NULL, "make the container's root file system writable" },
	{ "container-readonly", NULL, "make the container's root file system read-only" },
#if SLURM_VERSION_NUMBER < SLURM_VERSION_NUM(23,11,0)
#define HAVE_SEGMENT 1          /* must stay the last of the table: it is registered only when asked for */
	{ "segment", "SIZE", "size of a segment (in Slurm itself from 23.11; here accepted and ignored)" },
#else
#define HAVE_SEGMENT 0
#endif
};
#define NDEFS ((int)(sizeof(defs) / sizeof(defs[0])))
static char *vals[NDEFS];
static int check = 1;

static int opt_cb(int val, const char *optarg, int remote)
{
	(void)remote;
	if (val < 0 || val >= NDEFS) return -1;
	if (defs[val].arg && (!optarg || !*optarg)) {
		slurm_error("pyxis: --%s: argument required", defs[val].name);
		return -1;
	}
	free(vals[val]);
	vals[val] = strdup(defs[val].arg ? optarg : "1");
	return vals[val] ? 0 : -1;
}

int slurm_spank_init(spank_t sp, int ac, char **av)
{
	int count = NDEFS - HAVE_SEGMENT;

	for (int i = 0; i < ac; i++) {
		if (!strcmp(av[i], "nocheck")) check = 0;
		if (!strcmp(av[i], "segment")) count = NDEFS;
	}
	if (spank_context() == S_CTX_SLURMD || spank_context() == S_CTX_JOB_SCRIPT) return 0;
	for (int i = 0; i < count; i++) {
		struct spank_option o = { (char *)defs[i].name, (char *)defs[i].arg, (char *)defs[i].help,
		                          defs[i].arg != NULL, i, opt_cb };
		spank_err_t rc = spank_option_register(sp, &o);
		if (rc != ESPANK_SUCCESS) slurm_error("pyxis: --%s: %s", o.name, spank_strerror(rc));
	}
	return 0;
}

static const char *val_of(const char *name)
{
	for (int i = 0; i < NDEFS; i++)
		if (!strcmp(defs[i].name, name)) return vals[i];
	return NULL;
}

static int bad_image(const char *path)
{
	if (!access(path, R_OK)) return 0;
	slurm_error("pyxis: failed to open image: %s: %s", path, strerror(errno));
	return 1;
}

static int bad_mount(char *mount)
{
	char *dst = strchr(mount, ':');

	if (dst) {
		*dst++ = 0;
		dst[strcspn(dst, ":")] = 0;
	} else {
		dst = mount;
	}
	if (!*mount || *dst != '/') {
		slurm_error("pyxis: --container-mounts: invalid format: %s", mount);
		return 1;
	}
	if (*mount == '/' && access(mount, F_OK)) {
		slurm_error("pyxis: failed to mount: %s at %s: %s", mount, dst, strerror(errno));
		return 1;
	}
	return 0;
}

static int bad_mounts(const char *spec)
{
	char *all = strdup(spec), *save = NULL;
	int bad = !all;

	for (char *m = bad ? NULL : strtok_r(all, ",", &save); m && !bad; m = strtok_r(NULL, ",", &save))
		bad = bad_mount(m);
	free(all);
	return bad;
}

/* task_init and no earlier hook: a failure in user_init makes srun exit 0 on 22.05 */
int slurm_spank_task_init(spank_t sp, int ac, char **av)
{
	char key[128];
	const char *v;

	(void)ac;
	(void)av;
	if (check && (((v = val_of("container-image")) && (*v == '/' || *v == '.') && bad_image(v)) ||
	              ((v = val_of("container-mounts")) && bad_mounts(v)))) {
		slurm_error("pyxis: couldn't start container");
		return -1;               /* like pyxis: the task exits 1 */
	}
	for (int i = 0; i < NDEFS; i++) {
		if (!vals[i]) continue;
		snprintf(key, sizeof(key), "FAKEPYXIS_%s", defs[i].name);
		for (char *p = key; *p; p++) *p = *p == '-' ? '_' : toupper((unsigned char)*p);
		spank_setenv(sp, key, vals[i], 1);
	}
	if ((v = val_of("container-workdir")) && chdir(v))
		slurm_spank_log("pyxis: --container-workdir: %s: %s (left as it is)", v, strerror(errno));
	return 0;
}
