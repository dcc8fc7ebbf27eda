# Several front ends: nginx on the first node has the endpoint's port, and spreads requests over them. Sourced by job.sbatch.
# shellcheck shell=bash

require_nginx() { # the site's own, or an image of it; a simulation on this machine takes what there is, or does without
  [[ -z ${RECIPEGEN_LOCAL_JOB:-}${NGINX_BIN:-} ]] || return 0
  [[ -n ${NGINX_IMAGE:-} && ${CONTAINER_RUNTIME:-none} == pyxis ]] ||
    refuse_site "site.env names no NGINX_BIN, nor an NGINX_IMAGE that pyxis could run, and the recipe has several front ends"
}

choose_nginx() { # NGINX: srun's options for its image, and the program; nothing where there is none
  if [[ -n ${NGINX_BIN:-} ]]; then
    NGINX=("$NGINX_BIN")
  elif [[ -n ${RECIPEGEN_LOCAL_JOB:-} ]]; then
    mapfile -t NGINX < <(command -v nginx)
  else
    NGINX=(--container-image="$NGINX_IMAGE" --container-mounts="$RUN_DIR:$RUN_DIR" "${REMAP_ROOT[@]}"
      --no-container-mount-home --no-container-entrypoint nginx)
  fi
}

start_front_ends() { # start_front_ends FIRST_NODE COUNT PORT REPLICA_PORT [SESSION_HEADER]: one a node, and nginx before them
  local index node
  choose_nginx
  export FRONT_ENDS=$2 # for the probe
  if [[ ${#NGINX[@]} == 0 ]]; then
    note "this machine has no nginx: one front end stands for all $2, at the endpoint's port"
    FRONT_ENDS=1
    start_step frontend 0 1 bash "$BUNDLE/frontend.sh" 0 "$3"
    return
  fi
  for ((index = 0; index < $2; index++)); do
    node=$(($1 + index))
    start_step "frontend-$index" "$node" 1 bash "$BUNDLE/frontend.sh" "$node" "$4"
  done
  mkdir -p "$RUN_DIR/nginx" || exit
  nginx_conf "$1" "$2" $(($3 + PORT_OFFSET)) $(($4 + PORT_OFFSET)) "${5:-}" >"$RUN_DIR/nginx/nginx.conf" || exit
  launch nginx 0 1 "${NGINX[@]}" -p "$RUN_DIR/nginx/" -c nginx.conf # paths in it begin at -p
}

# From here on the plain commands of an export have this text, too; they set what it reads: RUN_DIR, with nodes.txt, and FRONTEND_HOST.

nginx_conf() { # nginx_conf FIRST_NODE COUNT PORT REPLICA_PORT [SESSION_HEADER]: from nodes.txt
  local address=${FRONTEND_HOST:-0.0.0.0} files group=front_ends
  [[ $address != node ]] || address=$FIRST_ADDRESS
  files=$(ulimit -Hn) # more would be refused, and nginx go on with the soft limit, often 1024
  [[ $files =~ ^[0-9]+$ ]] && ((files <= 131072)) || files=131072
  # As root, and where a container has the user for root, workers stay what they are: "nobody" may not read the run folder.
  [[ $EUID != 0 && ${NGINX[0]:-} != --container-image=* ]] || echo "user root root;"
  cat <<CONF
daemon off;
pid nginx.pid;
error_log stderr warn;
worker_processes 8;
worker_rlimit_nofile $files;
events {
  worker_connections $((files > 65600 ? 65536 : files > 128 ? files - 64 : 64)); # a request in flight has two
}
http {
  access_log off;
  client_body_temp_path body;
  proxy_temp_path proxy;
  fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi;
  scgi_temp_path scgi;

  # a request passes as it came, however long its prompt
  client_max_body_size 0;
  client_body_buffer_size 1m;
  underscores_in_headers on;
  ignore_invalid_headers off;
  keepalive_timeout 600s;
  keepalive_requests 1000000;

$(nginx_upstream front_ends "" "$@")
CONF
  if [[ -n ${5:-} ]]; then
    local variable=${5,,}
    nginx_upstream sessions "    hash \$http_${variable//-/_} consistent;" "$@"
    echo "  map \$http_${variable//-/_} \$group { default sessions; \"\" front_ends; }"
    group=\$group
  fi
  cat <<CONF

  server {
    listen $address:$3 backlog=16384;
    location / {
      proxy_pass http://$group;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Host \$http_host;
      proxy_set_header X-Forwarded-For \$proxy_add_x_forwarded_for;

      # tokens leave as they come; a stream may be silent for as long as a request waits
      proxy_buffering off;
      proxy_read_timeout 24h;
      proxy_send_timeout 24h;
      send_timeout 24h;

      # to the next front end goes only what has not reached one: a completion is never asked for twice
      proxy_connect_timeout 5s;
      proxy_next_upstream error timeout;
      add_header X-Recipegen-Front-End \$upstream_addr always;
    }
  }
}
CONF
}

nginx_upstream() { # nginx_upstream NAME LINE FIRST_NODE COUNT PORT REPLICA_PORT
  # max_fails=0: none is left out in silence. Each keeps its share, and shows that it fails; one that ended ends the job.
  echo "  upstream $1 {"
  echo "    zone $1 1m;"
  [[ -z $2 ]] || echo "$2"
  awk -v first="$3" -v count="$4" -v port="$6" '$1 >= first && $1 < first + count { print "    server " $3 ":" port " max_fails=0;" }' "$RUN_DIR/nodes.txt"
  echo "    keepalive 512;"
  echo "    keepalive_timeout 15s;" # sooner than a front end would close: a completion sent into that is lost
  echo "  }"
}
